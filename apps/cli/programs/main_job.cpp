// The program that ./run.sh builds: the main job alone.

#include "apps/cli/main_job/main_job_verbs.h"
#include "apps/cli/shell/verbs.h"

#include <array>

namespace eg::cli {
namespace {

constexpr std::array table = {doctor_verb, run_verb};

} // namespace

std::span<const Verb> verbs() { return table; }

} // namespace eg::cli
