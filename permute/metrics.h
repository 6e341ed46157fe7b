#pragma once
// metrics.jsonl: one JSON object a line, flushed line by line so that a run can be watched.

#include "permute/training.h"

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace eg::permute {

/// A record as one JSON object: split, step, epoch, loss and accuracy of the main (last) variant, lr, images_per_s, and
/// with several variants an object for each under "variants". Numbers that were not measured are left out.
nlohmann::ordered_json record_json(const TrainRecord& record);

/// The records of a file whose step is at most `through`, in order, ending before a line that is torn or no record.
/// `main`: the mode of a run with one variant, which lines do not hold. Throws FileError when the file cannot be read
/// or a line lacks a field;
/// one that is missing holds none.
std::vector<TrainRecord> read_metrics(const std::string& path, std::int64_t through, TrainMode main);

/// Appends records to a file. Throws FileError.
class MetricsFile {
public:
  /// Keeps the lines of an earlier run whose step is at most `keep_through`; -1: begins anew. `test_again`: not the
  /// test at that step, which is done once more.
  MetricsFile(const std::string& path, std::int64_t keep_through, bool test_again = false);
  void write(const TrainRecord& record);

private:
  std::string path_;
  std::ofstream file_;
};

} // namespace eg::permute
