#pragma once
// Describes what a training step or a test gave, and a line of metrics.jsonl (training/metrics.h) that holds it.

#include "data/dataset.h"
#include "permute/permuted_pass.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace eg::training {

inline constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

/// What one model did in a step or a test; what was not measured is NaN.
struct VariantRecord {
  permute::PermuteMode mode = permute::PermuteMode::none;
  double loss = 0.0;              ///< mean, in nats
  double accuracy = not_measured; ///< share of samples that were right
  double auc = not_measured;      ///< area under the ROC curve
  double drift = not_measured;    ///< see ModelTask::drift
  double ema_loss = not_measured; ///< of a test with the average of the weights
  double ema_accuracy = not_measured;
};

/// After a step (split train, the batch) or a test (split test, all test data): the values of the main model, which is
/// the last one, and those of every model.
struct Record : VariantRecord {
  data::Split split = data::Split::train;
  std::int64_t step = 0;  ///< steps done
  std::int64_t epoch = 0; ///< number of the step's epoch, from 0
  double lr = 0.0;
  double per_s = 0.0; ///< units a second, whatever the number of models
  std::vector<VariantRecord> variants;
};

/// A record as one JSON object: split, step, epoch, the main model's loss and accuracy, lr, UNIT_per_s, and with
/// several models an object for each under "variants". Numbers that were not measured are left out.
nlohmann::ordered_json record_json(const Record& record, const std::string& unit);

/// The records of a file whose step is at most `through`, in order, ending before a line that is torn or no record.
/// `main`: the mode of a run with one model, which lines do not hold. Throws FileError when the file cannot be read or
/// a line lacks a field; one that is missing holds none.
std::vector<Record> read_records(const std::string& path, std::int64_t through, permute::PermuteMode main,
                                 const std::string& unit);

} // namespace eg::training
