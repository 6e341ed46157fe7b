#include "cli/verify_job.h"

#include "cli/interrupt.h"
#include "cli/progress.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>

namespace eg::cli {

std::vector<permute::VerifyResult> verify_all(permute::VerifyOptions options, const std::vector<DType>& dtypes,
                                              bool show_progress) {
  stop_flag();
  const auto meant = static_cast<std::size_t>(
      std::count_if(permute::catalogue().begin(), permute::catalogue().end(),
                    [&](const permute::Identity& identity) { return permute::matches(identity, options.filter); }));
  Progress progress(show_progress);
  std::vector<permute::VerifyResult> all;
  for (const DType dtype : dtypes) {
    options.dtype = dtype;
    permute::run_catalogue(options, [&](const permute::VerifyResult& result) {
      all.push_back(result);
      progress.show(static_cast<double>(all.size()), static_cast<double>(meant * dtypes.size()),
                    fmt::format("{} {}", name_of(dtype), result.id));
      throw_if_stopped();
    });
  }
  return all;
}

void print_table(const std::vector<permute::VerifyResult>& results) {
  fmt::print("{:<14} {:<5} {:<44} {:>9} {:>9} {:>9}  {}\n", "id", "type", "what", "error", "gate", "control", "");
  for (const permute::VerifyResult& r : results) {
    std::string title = r.title;
    if (title.size() > 44) title = title.substr(0, 41) + "...";
    fmt::print("{:<14} {:<5} {:<44} {:>9.1e} {:>9.0e} {:>9.1e}  {}\n", r.id, name_of(r.dtype), title, r.error,
               r.tolerance, r.control.error, r.pass ? "pass" : "FAIL " + r.detail);
  }
  const int failed = failures(results);
  fmt::print("{} of {} identities hold within their gates with controls that fail as they must.\n",
             static_cast<int>(results.size()) - failed, results.size());
  std::fflush(stdout);
}

int failures(const std::vector<permute::VerifyResult>& results) {
  return static_cast<int>(
      std::count_if(results.begin(), results.end(), [](const permute::VerifyResult& result) { return !result.pass; }));
}

} // namespace eg::cli
