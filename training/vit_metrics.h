#pragma once
// The lines of metrics.jsonl (training/metrics.h) of a VitTrainer.

#include "training/vit_trainer.h"

#include <cstdint>
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

} // namespace eg::permute
