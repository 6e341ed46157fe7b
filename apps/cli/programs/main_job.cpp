// The program that ./run.sh builds first: the main job, and nothing that it does not need.

#include "apps/cli/shell/verbs.h"

#include <array>

namespace eg::cli {
namespace {

constexpr std::array table = {
    Verb{"doctor", nullptr, "what this program runs on: threads, BLAS, SIMD, memory", declare_doctor},
    Verb{"run", nullptr, "the main job: doctor, the theorems, permuted training side by side, out/report.html",
         declare_run},
};

} // namespace

std::span<const Verb> verbs() { return table; }

} // namespace eg::cli
