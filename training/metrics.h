#pragma once
// Writes and reads metrics.jsonl, one JSON object a line, so that a run can be watched.

#include "core/base/append_file.h"
#include "core/base/function_ref.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace eg::training {

/// Calls visit(line with its end, record) for the lines of `path` that are whole records of steps up to `last`, ending
/// at the first line that is torn or no record. A file that is missing holds none. Throws FileError.
void each_metrics_line(const std::string& path, std::int64_t last,
                       FunctionRef<void(std::string_view, const nlohmann::ordered_json&)> visit);

/// Whether a record is of a test: "split" is "test".
bool is_test_record(const nlohmann::ordered_json& record);

/// Calls visit(name, value) for every value of a record that is no object; "variants", "rows", "loss" within each other
/// are called "variants.rows.loss" when `between` is ".".
void each_metric(const nlohmann::ordered_json& record, std::string_view between,
                 FunctionRef<void(const std::string&, const nlohmann::ordered_json&)> visit);

/// Which records of an earlier process's metrics a resumed run keeps.
struct KeptMetrics {
  std::int64_t through = -1; ///< records up to this step; -1: none
  bool test_again = false;   ///< not the test at that step, which is done once more
  std::int64_t at = through; ///< where the run stands: one further where that step's line is still to be written

  bool keeps(std::int64_t step, bool test) const {
    return step < through || (step == through && !(test && test_again));
  }
};

/// Appends records to a file. Throws FileError.
class MetricsFile {
public:
  MetricsFile(const std::string& path, const KeptMetrics& kept);
  void write(const nlohmann::ordered_json& record);
  /// The test at step `kept.at`, when it was among the lines that were kept.
  const std::optional<nlohmann::ordered_json>& kept_test() const { return kept_test_; }
  /// "seconds" of the last line that was kept; 0 without one.
  double kept_seconds() const { return kept_seconds_; }

private:
  std::string keep(const std::string& path, const KeptMetrics& kept);

  std::optional<nlohmann::ordered_json> kept_test_;
  double kept_seconds_ = 0.0;
  AppendFile file_;
};

} // namespace eg::training
