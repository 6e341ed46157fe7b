#include "training/metrics_log.h"

#include "core/base/bytes.h"

#include <cmath>
#include <filesystem>
#include <system_error>

namespace eg::training {

using Clock = std::chrono::steady_clock;

MetricsLog::MetricsLog(const RunOptions& options, const KeptMetrics& kept)
    : lines_(join_path(options.out, "metrics.jsonl"), kept), begin_(Clock::now()) {
  const std::string table = join_path(options.out, "metrics.csv");
  if (options.csv) {
    table_.emplace(table, join_path(options.out, "metrics.jsonl"));
  } else { // one of an earlier process would end where that did
    std::error_code missing;
    std::filesystem::remove(table, missing);
  }
  if (options.tensorboard)
    events_.emplace(options.out, kept);
  else
    trim_event_files(options.out, kept);
}

void MetricsLog::write(nlohmann::ordered_json record) {
  const double spent = std::chrono::duration<double>(Clock::now() - begin_).count();
  record["seconds"] = std::round(1e3 * (lines_.kept_seconds() + spent)) / 1e3;
  lines_.write(record);
  if (table_) table_->write(record);
  if (events_) events_->write(record);
}

} // namespace eg::training
