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

/// Where a hosted run lives.
struct HostedPlace {
  std::string folder;     ///< for its checkpoints; empty: none
  std::string peer;       ///< whose run it is
  std::uint64_t seed = 0; ///< of what the cloud draws: dropout, weights on request
  std::int64_t keep = 3;  ///< newest checkpoints that stay
};

/// Members throw ProtocolError for what the edge got wrong, and change no weight then; FileError, MemoryError. A
/// forward pass that waited is dropped after a backward pass, whatever its result. All are called on one thread.
class HostedRun {
public:
  /// With the recipe's blocks, whose weights are still to come.
  HostedRun(const training::EncoderRecipe& recipe, HostedPlace place);

  /// One initial weight.
  void put(const std::string& name, const Tensor& value);
  /// After every weight was set, or with `draw` and none: training can begin.
  void begin(bool draw);
  /// Y of step `step`: the next one; the one that waits for its gradients, which is repeated; or the one behind that,
  /// when the edge leaves out the one that waits.
  Tensor forward(std::int64_t step, const Tensor& z, const Tensor& mask);
  /// dZ of the step whose forward pass was last, for dY; every weight takes its step.
  Tensor backward(std::int64_t step, const Tensor& dy);
  Tensor evaluate(const Tensor& z, const Tensor& mask);
  /// Writes a checkpoint behind `step` steps, where there is a folder. That behind `best` steps stays.
  void save(std::int64_t step, std::optional<std::int64_t> best);
  /// The same at its current step, unrequested: replaces the last such checkpoint, and none that was requested.
  void save_unasked();
  /// Goes back to the checkpoint behind `step` steps, or the newest one. Throws ProtocolError: no_checkpoint when it is
  /// missing or damaged, unknown_run when it is another peer's, other_recipe.
  void restore(std::optional<std::int64_t> step);
  /// Throws what restore(step) of a run with that recipe would, before another one releases the folder.
  static void require_restorable(const training::EncoderRecipe& recipe, const HostedPlace& place, std::int64_t step);
  /// Forgets a forward pass without gradients.
  void drop_pending() {
    pending_.reset();
    waiting_.reset();
  }
  Tensor weight(const std::string& name) const;

  bool begun() const { return begun_; }
  /// Steps that were taken.
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
  std::optional<std::int64_t> best_; ///< which checkpoint stays, whatever comes
  /// The step whose forward pass was last, until its gradients come. The edge may leave it out and continue with the
  /// next one, also when the pass itself was lost with the cloud that computed it.
  std::optional<std::int64_t> waiting_;
  std::optional<Pending> pending_; ///< that pass
};

} // namespace eg::split_learning
