#pragma once
// Records the checkpoint with the best test result: RUN/checkpoints/best.json.

#include "training/options.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace eg::training {

/// What best.json says: the measure, the step of the checkpoint, and its value.
struct BestMark {
  BestBy by = BestBy::loss;
  std::int64_t step = 0;
  double value = 0.0;
};

/// The mark of a run, also of one that is still training; nothing where there is none, or where it is damaged:
/// malformed, of a checkpoint that is not there, or contradicted by the metrics. Then `note` becomes one sentence that
/// says so. Throws FileError when the system refuses.
std::optional<BestMark> read_best_mark(const std::string& run_folder, std::string& note);

/// The best test of a run so far. Its checkpoint is kept whatever comes after.
class BestCheckpoint {
public:
  /// Reads the mark that an earlier process left, where it is of a step up to `through` and by the same measure; -1:
  /// none. A damaged mark is made again from the tests in metrics.jsonl whose checkpoints are there. Throws FileError
  /// when the system refuses.
  BestCheckpoint(const RunOptions& options, std::int64_t through);

  /// What became of a damaged mark, one sentence; "" when there was none.
  const std::string& note() const { return note_; }

  /// Whether a test is better than every one before. Throws ValueError when what counts was not measured.
  bool improves(const nlohmann::ordered_json& record) const;
  /// Writes that the checkpoint of the record's step, which exists, is the best one. Throws FileError.
  void mark(const nlohmann::ordered_json& record);
  /// Its step; nothing without one.
  std::optional<std::int64_t> step() const { return step_; }

private:
  double value_in(const nlohmann::ordered_json& record) const;
  bool read(std::int64_t through);
  void make_again(std::int64_t through);

  std::string path_, out_, note_;
  BestBy by_;
  std::vector<std::int64_t> there_; ///< steps of the checkpoints that an earlier process left
  std::optional<std::int64_t> step_;
  double value_ = 0.0;
};

} // namespace eg::training
