#pragma once
// Measures times: repetitions, medians, and the line of JSON of a measurement.

#include "core/base/bytes.h"
#include "core/base/function_ref.h"

#include <cstdint>
#include <memory>
#include <string>

namespace eg::cli::bench {

/// Milliseconds of one repetition.
struct Timing {
  double median_ms = 0;
  double best_ms = 0;
  double cpu_ms = 0; ///< median processor time of all threads: what a machine busy with other work distorts least
  int repetitions = 0;
};

/// Runs work() `warmup` times and then until `seconds` have passed, at least `least` times. Work shorter than a
/// millisecond is repeated within one measurement so that the clock does not matter.
Timing measure(FunctionRef<void()> work, double seconds, int warmup = 2, int least = 5);

/// Two kinds of work in turn, A B A B ..., so that a machine whose speed drifts treats them alike. `rest_ms` is slept
/// after each B, for libraries whose threads spin on after their work and would take the processors from A.
struct PairedTiming {
  Timing a, b;
};
PairedTiming measure_in_turn(FunctionRef<void()> a, FunctionRef<void()> b, double seconds, int rest_ms);

/// Largest resident memory of this process so far, MB (10^6 bytes).
double peak_rss_mb();

/// Fields of one line of `bench --json`; work_flops 0: gflops is null.
struct Line {
  std::string bench, engine = "equigrad", name;
  std::int64_t batch = 0;
  Timing timing;
  double items = 0;      ///< what per_s counts, for each repetition
  double work_flops = 0; ///< per repetition
  double rss_mb = peak_rss_mb();
  double device_mb = 0; ///< peak of the device allocator; 0 where the CPU computes
  std::string extra;    ///< more JSON fields, as text beginning with a comma
};

/// Where lines go: JSON lines to a file or stdout, and a row of a table for people.
class Output {
public:
  /// json as --json, written beside its place from the first line on; table: print rows for people.
  Output(std::string json, bool table);
  /// Lines that were written before an error or Ctrl-C are kept.
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  /// Throws FileError when a line is lost.
  void write(const Line& line);
  /// Puts the file of JSON lines in its place. Throws FileError.
  void finish();

private:
  std::string path_;
  std::unique_ptr<AtomicFile> file_;
  bool table_;
  bool header_written_ = false;
};

} // namespace eg::cli::bench
