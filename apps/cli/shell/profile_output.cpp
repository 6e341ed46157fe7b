#include "apps/cli/shell/profile_output.h"

#include "apps/cli/shell/output.h"

#include "core/measure/profile.h"

#include <fmt/format.h>

namespace eg::cli {
namespace {

void write_profile(const Profile& profile, const CommonOptions& common) {
  const double elapsed_us = profile.elapsed_us(); // measuring the roofline takes time itself
  const Roofline roofline = measure_roofline();
  write_result(common.profile, profile.chrome_trace(roofline));
  if (!common.talks()) return;
  say(fmt::format("\n{}trace: {} (open it in chrome://tracing or ui.perfetto.dev)\n",
                  profile.table(roofline, elapsed_us), common.profile));
}

} // namespace

int run_profiled(const Job& job, const CommonOptions& common) {
  if (common.profile.empty()) return job();
  const Profile profile;
  int code = done;
  try {
    code = job();
  } catch (...) { // Ctrl-C, or memory that ran out: what led there is what one wants to see
    if (!profile.calls().empty()) write_profile(profile, common);
    throw;
  }
  write_profile(profile, common);
  return code;
}

} // namespace eg::cli
