#pragma once
// Writes and reads checkpoints, folders that appear complete or not at all.
//
//   RUN/checkpoints/latest            the name of the newest complete checkpoint
//   RUN/checkpoints/best.json         which one did best in its test, and how well (training/best.h)
//   RUN/checkpoints/step-00001000/    model.safetensors, optimizer.safetensors (per variant), state.json, which records
//                                     size and checksum of the others
//
// Who writes holds the folder's RunLock.

#include "data/safetensors.h"
#include "nn/module.h"
#include "optim/average.h"
#include "optim/optimizer.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace eg::training {

/// A folder being written under a temporary name. commit() flushes it to the disk, renames it into place and makes it
/// the latest one; without commit() it vanishes. Members throw FileError when the system refuses.
class CheckpointWriter {
public:
  /// `best`: the step of the checkpoint that did best so far.
  CheckpointWriter(const std::string& run_folder, std::int64_t step, std::optional<std::int64_t> best = {});
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Where a file of the checkpoint is to be written.
  std::string path(const std::string& file) const;
  /// What is kept with it, here and where another party keeps a part of the checkpoint.
  std::optional<std::int64_t> best() const { return best_; }
  /// Size and checksum of what has been written so far (file_records).
  nlohmann::ordered_json files() const;
  /// Returns the folder's final path.
  std::string commit();

private:
  std::string root_, name_, temporary_;
  std::optional<std::int64_t> best_;
  bool committed_ = false;
};

/// Makes a folder and what it lies in. Throws FileError.
void make_folder(const std::string& path);
/// "step-00001000"
std::string checkpoint_name(std::int64_t step);
/// Steps of a run's complete checkpoints (those with a state.json, which is written last), ascending.
std::vector<std::int64_t> checkpoint_steps(const std::string& run_folder);
/// The checkpoints that `folder` stands for, best first: itself alone, or those of a run folder, of which one at least
/// is complete: the newest one first, then the others, for when the first turns out damaged. Not empty: throws
/// FileError that says why there is none, or that the system does not let us look.
std::vector<std::string> find_checkpoints(const std::string& folder);
/// Removes all checkpoints but the newest `keep` whole ones up to `step`, and the one of step `best`: older ones,
/// damaged ones, and later ones that a run which has gone back to an earlier step has left. One that cannot be read, or
/// that a newer equigrad wrote, stays and does not count.
void prune_checkpoints(const std::string& run_folder, std::int64_t step, std::size_t keep,
                       std::optional<std::int64_t> best = {});
/// What a run would write over: a folder with checkpoints, metrics or a model.
bool holds_run(const std::string& folder);
/// What would be a loss: a folder with checkpoints, whatever they are called, or a model. Metrics alone are left by a
/// run that cannot be resumed, as when its loss stopped being finite.
bool holds_results(const std::string& folder);
/// The files and folders that a run makes in its folder, whether they are there or not.
std::vector<std::string> files_of_run(const std::string& folder);
/// A file that a run would write over and that no run has left: metrics.csv or config.json of something else, say. ""
/// when there is none.
std::string foreign_file(const std::string& folder);
/// Removes what a run has left: checkpoints, metrics, models. Other files stay.
void clear_run(const std::string& folder);
/// Removes the temporary files and folders that a run left which was killed while it wrote. Only for who holds the
/// RunLock.
void remove_leftovers(const std::string& folder);
/// The same for the one file `path`.
void remove_leftovers_of(const std::string& path);

/// State tensors named "<parameter>.<state>"; `names` are the parameters' names in the optimiser's order.
data::NamedTensors optimizer_tensors(const optim::Optimizer& optimizer, const std::vector<std::string>& names);
/// Reads a file of such tensors. Throws FileError that names it when any is missing, left over or of another shape or
/// type; nothing is changed then.
void load_optimizer(optim::Optimizer& optimizer, const std::vector<std::string>& names, const std::string& path);
/// The averages of a module's weights under the names of its parameters.
data::NamedTensors average_tensors(const optim::WeightAverage& average, const std::vector<std::string>& names);
/// Reads such a file back. Throws FileError that names the file.
void load_average(optim::WeightAverage& average, const std::vector<std::string>& names, const std::string& path);

/// Reads a model's weights. Throws FileError that names the file.
void load_model(nn::Module& model, const std::string& path);

} // namespace eg::training
