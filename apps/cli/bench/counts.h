#pragma once
// Counts the instructions of chosen calls and compares them with stored counts, which a busy machine does not distort.

#include <string>

namespace eg::cli::bench {

/// bench ops --store FILE, --against FILE.
struct CountOptions {
  std::string store, against; ///< one of the two
  std::string counter;        ///< processor, valgrind, or empty: the file's, or what this machine allows
  double tolerance = 3.0;     ///< percent
  std::string name;           ///< one call, or empty for all

  bool asked() const { return !store.empty() || !against.empty(); }
};

/// Counts user-space instructions of each call by the processor's counter (perf_event_open), or by valgrind's
/// callgrind, which runs this program again and has AVX2 and nothing wider. Writes them, or compares: an ExitCode,
/// check_failed where a call takes more than the tolerance beyond what was stored. Throws UsageError for a counter that
/// this machine does not allow and for a file that another counter or other vector instructions made, ValueError for an
/// unknown call.
int counts(const CountOptions& options, bool talks);

/// What callgrind runs: each call once, through equigrad_counted_call.
void counted_calls(const std::string& name);

} // namespace eg::cli::bench
