#include "training/new_run.h"

#include "core/base/error.h"
#include "training/checkpoint.h"
#include "training/run_lock.h"

#include <fmt/format.h>

namespace eg::training {
namespace {

bool is_free(const std::string& folder) { return !holds_run(folder) && !run_is_locked(folder); }

} // namespace

std::string run_folder_for(const std::string& name, const RunOptions& options) {
  if (!options.out.empty()) return options.out;
  const std::string first = "out/" + name;
  if (options.overwrite) return first;
  std::string folder = first;
  for (int i = 2; !is_free(folder); ++i) folder = fmt::format("{}-{}", first, i);
  return folder;
}

void in_run_folder(const std::string& name, RunOptions& options, const distributed::Communicator* processes,
                   FunctionRef<void()> open) {
  if (processes != nullptr && !processes->first()) { // the run tells which folder it is
    if (options.out.empty()) options.out = "out/" + name;
    return open();
  }
  const bool asked = !options.out.empty() || options.overwrite;
  for (;;) {
    options.out = run_folder_for(name, options);
    try {
      return open();
    } catch (const Interrupted&) {
      throw;
    } catch (const Error&) {
      if (asked || is_free(options.out)) throw;
      options.out.clear();
    }
  }
}

} // namespace eg::training
