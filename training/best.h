#pragma once
// Which checkpoint did best in its test: RUN/checkpoints/best.json.

#include "training/options.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace eg::training {

/// The best test of a run so far. Its checkpoint is kept whatever comes after.
class BestCheckpoint {
public:
  /// Reads the mark that an earlier process left, where it is of a step up to `through` and by the same measure; -1:
  /// none. Throws FileError for a file that is no such mark.
  BestCheckpoint(const RunOptions& options, std::int64_t through);

  /// Whether a test is better than every one before. Throws ValueError when what counts was not measured.
  bool improves(const nlohmann::ordered_json& record) const;
  /// Writes that the checkpoint of the record's step, which exists, is the best one. Throws FileError.
  void mark(const nlohmann::ordered_json& record);
  /// Its step; nothing without one.
  std::optional<std::int64_t> step() const { return step_; }

private:
  double value_in(const nlohmann::ordered_json& record) const;

  std::string path_;
  BestBy by_;
  std::optional<std::int64_t> step_;
  double value_ = 0.0;
};

} // namespace eg::training
