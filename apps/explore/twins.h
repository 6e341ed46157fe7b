#pragma once
// Trains a small vision transformer and its transformed twin side by side, for the page "two trainings".

#include "apps/explore/question.h"

#include "nn/vit.h"
#include "optim/optimizer.h"
#include "permute/blocks_key.h"
#include "permute/permuted_pass.h"

#include <memory>
#include <string>
#include <vector>

namespace eg::explore {

/// What becomes of the twin's encoder.
enum class TwinGroup : std::uint8_t {
  tokens,   ///< P_R Z, another P_R for every sample and step
  features, ///< Z P_C, weights moved along (decoupled)
  both,
  signs,    ///< Z diag(+-1), weights moved along; RMS norms with fixed gains
  rotation, ///< Z Q with orthogonal Q, weights moved along; RMS norms with fixed gains
  scaling,  ///< W_V' = D W_V, W_O' = W_O D^-1: the same function, other gradients
  uncoupled ///< Z P_C with the plain weights
};

struct TwinOptions {
  TwinGroup group = TwinGroup::features;
  std::string optimizer = "adamw"; ///< of optim::make_optimizer
  double learning_rate = 1e-3;
  Precision precision;
  /// With a rotation and Muon: train the biases of rotated features too. Muon leaves vectors to Adam, which no rotation
  /// passes, so that the twin of Muon's theorem has these biases fixed.
  bool vectors = false;
  std::int64_t batch = 16;
  std::uint64_t seed = 1;
};

/// After each step: both losses, and how far the twin's weights are from the moved weights of the plain model, over
/// all weights but b_K, whose gradient is rounding alone.
struct TwinStep {
  double loss = 0.0, twin_loss = 0.0;
  double drift = 0.0;                 ///< max |w' - move(w)| / max |move(w)|; NaN where a weight is
  double rounding = 0.0;              ///< the same for a third training, begun one rounding away from the plain one
  std::int64_t differing = 0, of = 0; ///< numbers with other bits, of how many
};

class Twins {
public:
  /// Two ViTs of 2 blocks and 32 features on noisy pictures of ten patterns, 16 x 16. Throws ValueError for an unknown
  /// optimiser.
  explicit Twins(const TwinOptions& options);
  TwinStep step();
  /// Shares of 200 test pictures that both classify right; chance is 0.1.
  std::pair<double, double> accuracies() const;
  std::int64_t steps() const { return steps_; }
  /// What a step says of the twins. Training amplifies rounding with every step, so that the drift of true twins is
  /// measured by the third training: it may be 100 times as far. Where that has come to 1e-3 of the weights, rounding
  /// has taken over, and nothing can be said. Where sums are exact and elements only move or change their sign, the
  /// drift is 0.
  enum class Verdict : std::uint8_t { twins, apart, unknown };
  Verdict judge(const TwinStep& step) const;
  std::int64_t parameter_count() const { return plain_.parameter_count(); }

private:
  std::pair<Tensor, Tensor> pictures(std::int64_t count, std::uint64_t draw) const;
  Tensor classify(const nn::Vit& model, const Tensor& images, bool twin, std::uint64_t draw) const;
  double train(nn::Vit& model, optim::Optimizer& optimizer, const Tensor& images, const Tensor& labels,
               bool twin) const;
  nn::StateDict moved(const nn::StateDict& weights) const;
  void compare(TwinStep& step) const;

  TwinOptions options_;
  permute::Permutation columns_;
  permute::PermutationSet permutations_;
  permute::AxisMap axes_;
  Tensor basis_;    ///< Q [dim, dim], of signs and rotation
  Tensor scales_;   ///< D [dim], of scaling
  Tensor patterns_; ///< [10, 3, 16, 16]
  nn::Vit plain_, twin_, third_;
  std::unique_ptr<optim::Optimizer> plain_optimizer_, twin_optimizer_, third_optimizer_;
  std::int64_t steps_ = 0;
};

} // namespace eg::explore
