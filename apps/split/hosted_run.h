#pragma once
// Trains the cloud's half of one run: encoder blocks, their optimiser and schedule. It sees features and gradients,
// nothing else.

#include "autograd/tape.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "training/checkpoint.h"
#include "training/remote_encoder.h"
#include "training/run_lock.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace eg::split_learning {

/// A model's blocks alone, named as in the model ("blocks.0.norm1.weight"), without values.
class EncoderBlocks : public nn::Module {
public:
  EncoderBlocks(std::int64_t layers, const nn::BlockConfig& config);
  /// z [B, T, dim], mask [B, T] (0: padding) or undefined -> [B, T, dim].
  Tensor operator()(const Tensor& z, const Tensor& mask, RandomKey dropout) const;
  const nn::BlockConfig config;

private:
  nn::Blocks blocks_;
};

/// Where a hosted run is stored, whose it is, and what it draws from.
struct HostedPlace {
  std::string folder;     ///< for its checkpoints; empty: none
  std::string peer;       ///< whose run it is
  std::uint64_t seed = 0; ///< of what the cloud draws: dropout, weights on request
  std::int64_t keep = 3;  ///< so many newest checkpoints are kept
};

/// The blocks of one run, with their optimiser and schedule. Members throw ProtocolError for a wrong request, which
/// changes no weight, and FileError or MemoryError. backward() uses the forward pass up, whatever its result. All are
/// called on one thread.
class HostedRun {
public:
  /// Makes the recipe's blocks, without values, and locks the folder.
  HostedRun(const training::EncoderRecipe& recipe, HostedPlace place);

  /// Sets one initial weight, before begin().
  void put(const std::string& name, const Tensor& value);
  /// Begins training, after put() of every weight; or with `draw`, after none: then the weights are drawn from the
  /// place's seed.
  void begin(bool draw);
  /// Y [B, T, dim] of training step `step` for Z and a mask as EncoderBlocks takes them. `step` is the next step; or
  /// the one that waits for its gradients, whose pass is computed again; or the one after that, when the edge skips the
  /// waiting one.
  Tensor forward(std::int64_t step, const Tensor& z, const Tensor& mask);
  /// dZ for dY, both [B, T, dim], of the step whose forward pass was last. The optimiser updates every weight.
  Tensor backward(std::int64_t step, const Tensor& dy);
  /// Y for Z in evaluation mode, outside of training steps.
  Tensor evaluate(const Tensor& z, const Tensor& mask);
  /// Writes a checkpoint after `step` steps, where there is a folder. The checkpoint after `best` steps is kept.
  void save(std::int64_t step, std::optional<std::int64_t> best);
  /// The same after the steps taken so far, without a request of the edge. Replaces the last such checkpoint, and none
  /// that was requested.
  void save_unasked();
  /// Goes back to the checkpoint after `step` steps, or to the newest one. Throws ProtocolError: no_checkpoint when it
  /// is missing or damaged, unknown_run when it is another peer's, other_recipe.
  void restore(std::optional<std::int64_t> step);
  /// Throws what restore(step) of a run with that recipe would, before another one releases the folder.
  static void require_restorable(const training::EncoderRecipe& recipe, const HostedPlace& place, std::int64_t step);
  /// Drops the forward pass that waits for its gradients.
  void drop_pending() {
    pending_.reset();
    waiting_.reset();
  }
  /// The weight of that name as it is now.
  Tensor weight(const std::string& name) const;

  bool begun() const { return begun_; }
  /// Steps taken or skipped so far.
  std::int64_t step() const { return step_; }
  const training::EncoderRecipe& recipe() const { return recipe_; }
  const std::string& peer() const { return place_.peer; }
  const std::string& folder() const { return place_.folder; }

private:
  /// A forward pass that waits for its gradients.
  struct Pending {
    std::unique_ptr<Tape> tape;
    Tensor z, y;
  };
  void require_begun() const;
  void require_input(const Tensor& z, const Tensor& mask) const;
  void write_checkpoint(bool asked);
  void load(const std::string& checkpoint);

  training::EncoderRecipe recipe_;
  HostedPlace place_;
  std::unique_ptr<training::RunLock> lock_;
  EncoderBlocks blocks_;
  std::vector<std::string> names_;
  std::vector<Tensor> parameters_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  optim::Schedule schedule_;
  std::set<std::string> put_;
  bool begun_ = false;
  std::int64_t step_ = 0;
  std::optional<std::int64_t> best_; ///< step whose checkpoint is kept
  /// The step whose forward pass was last, until its gradients come. The edge may skip it and continue with the next
  /// one, also when the pass itself was lost because the cloud ended.
  std::optional<std::int64_t> waiting_;
  std::optional<Pending> pending_; ///< that pass
};

} // namespace eg::split_learning
