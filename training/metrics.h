#pragma once
// metrics.jsonl: one JSON object a line, flushed line by line so that a run can be watched.

#include "core/function_ref.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

namespace eg::training {

/// Calls visit(line with its end, record) for the lines of `path` that are whole records of steps up to `last`, ending
/// at the first line that is torn or no record. A file that is missing holds none. Throws FileError.
void each_metrics_line(const std::string& path, std::int64_t last,
                       FunctionRef<void(std::string_view, const nlohmann::ordered_json&)> visit);

/// Whether a record is of a test: "split" is "test".
bool is_test_record(const nlohmann::ordered_json& record);

/// Appends records to a file. Throws FileError.
class MetricsFile {
public:
  /// Keeps the lines of an earlier run whose step is at most `keep_through`; -1: begins anew. `test_again`: not the
  /// test at that step, which is done once more.
  MetricsFile(const std::string& path, std::int64_t keep_through, bool test_again = false);
  void write(const nlohmann::ordered_json& record);
  /// Whether a test at step `keep_through` was among the lines that were kept.
  bool kept_test() const { return kept_test_; }

private:
  std::string path_;
  std::ofstream file_;
  bool kept_test_ = false;
};

} // namespace eg::training
