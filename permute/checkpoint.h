#pragma once
// Checkpoints: folders that appear complete or not at all.
//
//   RUN/checkpoints/latest            the name of the newest complete checkpoint
//   RUN/checkpoints/step-00001000/    model.safetensors, optimizer.safetensors (per variant), state.json

#include "data/safetensors.h"
#include "optim/optimizer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace eg::permute {

/// A folder being written under a temporary name. commit() flushes it to the disk, renames it into place and makes it
/// the latest one; without commit() it vanishes. Members throw FileError when the system refuses.
class CheckpointWriter {
public:
  CheckpointWriter(const std::string& run_folder, std::int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Where a file of the checkpoint is to be written.
  std::string path(const std::string& file) const;
  /// Returns the folder's final path.
  std::string commit();

private:
  std::string root_, name_, temporary_;
  bool committed_ = false;
};

/// Makes a folder and what it lies in. Throws FileError.
void make_folder(const std::string& path);
/// "step-00001000"
std::string checkpoint_name(std::int64_t step);
/// The checkpoint that `folder` stands for: itself, or the latest one of a run folder. Throws FileError that says what
/// was looked for.
std::string find_checkpoint(const std::string& folder);
/// Removes one checkpoint folder; it need not exist.
void remove_checkpoint(const std::string& run_folder, std::int64_t step);

/// State tensors named "<parameter>.<state>"; `names` are the parameters' names in the optimiser's order.
data::NamedTensors optimizer_tensors(const optim::Optimizer& optimizer, const std::vector<std::string>& names);
/// Writes such tensors back. Throws FileError beginning with `source` when any is missing, left over or of another
/// shape or type; nothing is changed then.
void load_optimizer_tensors(optim::Optimizer& optimizer, const std::vector<std::string>& names,
                            const data::NamedTensors& tensors, const std::string& source);

} // namespace eg::permute
