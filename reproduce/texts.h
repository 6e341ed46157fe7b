#pragma once
// What the experiments with BERT and GPT-2 share: trainers by a plan, and models whose weights are moved.

#include "reproduce/experiment.h"

#include "training/trainer.h"

#include <memory>
#include <string>

namespace eg::reproduce {

/// A trainer for one of the plan's text models ("bert", "gpt2") with a seed. `folder`: its run folder, which it goes on
/// from when it holds a run with the same options; empty: none. Throws FileError, ValueError, Interrupted.
std::unique_ptr<training::Trainer> text_trainer(const Plan& plan, const Workplace& work, const std::string& model,
                                                std::uint64_t seed, const std::string& folder);

/// The same for the plan's table ("difm"), its fields permuted as `mode` says.
std::unique_ptr<training::Trainer> table_trainer(const Plan& plan, const Workplace& work, std::uint64_t seed,
                                                 permute::TrainMode mode, const std::string& folder);

/// Trains it to the end, if it is not there. `tell` hears the share of its steps that is done.
void finish(training::Trainer& trainer, const Workplace& work, const std::function<void(double)>& tell);

/// Permutations of a model: those of its group that leave inputs and outputs alone, drawn by a seed.
class TextKey {
public:
  TextKey(hub::Model& model, std::uint64_t seed);
  /// Moves all weights by them, or back.
  void move(hub::Model& model) const { permute::transform_module(model.module(), axes_, permutations_); }
  void move_back(hub::Model& model) const {
    permute::transform_module(model.module(), axes_, permute::inverse(permutations_));
  }
  /// Moves the encoder's blocks alone: what a model without its key looks like to its own embedding and head.
  void move_blocks(hub::Model& model) const;
  const permute::AxisMap& axes() const { return axes_; }

private:
  permute::AxisMap axes_;
  permute::PermutationSet permutations_;
};

} // namespace eg::reproduce
