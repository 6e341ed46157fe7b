#pragma once
// Runs a verb's job under the profiler, for --profile FILE.

#include "apps/cli/shell/verb.h"

namespace eg::cli {

/// Runs the job. With --profile the trace goes to that file and the table to stdout (for people alone), also when
/// an error or Ctrl-C ended a job that had computed something. Throws what the job throws, and FileError.
int run_profiled(const Job& job, const CommonOptions& common);

} // namespace eg::cli
