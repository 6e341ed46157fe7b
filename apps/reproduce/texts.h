#pragma once
// Shares what the experiments with BERT and GPT-2 have in common: trainers by a plan, and models whose weights are
// permuted.

#include "apps/reproduce/experiment.h"

#include "training/trainer.h"

#include <memory>
#include <string>

namespace eg::reproduce {

/// One training of a text model.
struct TextRun {
  std::string model; ///< "bert" or "gpt2": the plan's options of that name
  std::uint64_t seed = 0;
  std::string folder = {};    ///< run folder; a run with the same options in it is resumed
  std::string changes = "{}"; ///< JSON: options that replace those of the plan
  bool permuted_rows = false; ///< BERT: tokens pass the blocks in an order of each text's own
};
/// Its trainer. Throws FileError, ValueError, Interrupted.
std::unique_ptr<training::Trainer> text_trainer(const Plan& plan, const RunContext& work, const TextRun& run);

/// The same for the plan's table ("difm"), its fields permuted as `mode` says.
std::unique_ptr<training::Trainer> table_trainer(const Plan& plan, const RunContext& work, std::uint64_t seed,
                                                 permute::PermuteMode mode, const std::string& folder);

/// A test's number for display: accuracy in percent, or perplexity a token.
double score(const training::Record& record);
/// A line for such numbers of a model: accuracy of BERT, perplexity of GPT-2.
Line score_line(const std::string& model, const std::string& what, const std::string& paper, Kind kind);
/// |a - b| / |b|
double relative_difference(double a, double b);

/// Trains it to the end, unless that was done. `on_progress` receives the share of its steps that is done.
void finish(training::Trainer& trainer, const RunContext& work, const std::function<void(double)>& on_progress);

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
