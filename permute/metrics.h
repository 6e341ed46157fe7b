#pragma once
// metrics.jsonl: one JSON object a line, flushed line by line so that a run can be watched.

#include "permute/training.h"

#include <cstdint>
#include <fstream>
#include <string>

namespace eg::permute {

/// A record as one JSON object: split, step, epoch, loss and accuracy of the main (last) variant, lr, images_per_s, and
/// with several variants an object for each under "variants". Numbers that were not measured are left out.
nlohmann::ordered_json record_json(const TrainRecord& record);

/// Appends records to a file. Throws FileError.
class MetricsFile {
public:
  /// Keeps the lines of an earlier run whose step is at most `keep_through`; -1: begins anew.
  MetricsFile(const std::string& path, std::int64_t keep_through);
  void write(const TrainRecord& record);

private:
  std::string path_;
  std::ofstream file_;
};

} // namespace eg::permute
