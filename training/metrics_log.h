#pragma once
// Writes all metrics of a run: metrics.jsonl and, unless they are not wanted, metrics.csv and event files for
// TensorBoard.

#include "training/event_files.h"
#include "training/metrics.h"
#include "training/metrics_table.h"
#include "training/options.h"

#include <chrono>
#include <optional>
#include <string>

namespace eg::training {

class MetricsLog {
public:
  /// Of an earlier process everything that `kept` keeps stays, in each file once. Throws FileError, as write() does.
  MetricsLog(const RunOptions& options, const KeptMetrics& kept);
  /// Adds "seconds", the time since the run began without the time between its processes, and writes the record.
  void write(nlohmann::ordered_json record);
  const std::optional<nlohmann::ordered_json>& kept_test() const { return lines_.kept_test(); }

private:
  MetricsFile lines_;
  std::optional<MetricsTable> table_;
  std::optional<EventFile> events_;
  std::chrono::steady_clock::time_point begin_;
};

} // namespace eg::training
