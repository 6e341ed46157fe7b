#pragma once
// Learns P_C by gradient descent on a doubly stochastic matrix in its place.

#include "core/random.h"
#include "permute/permutation.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace eg::attacks {

/// exp(A / temperature), [d, d], its rows and columns divided by their sums in turn, 20 times (Sinkhorn; Mena et al.,
/// "Learning latent permutations with Gumbel-Sinkhorn networks", ICLR 2018). Differentiable.
Tensor doubly_stochastic(const Tensor& a, double temperature);

/// The permutation nearest to a doubly stochastic M [d, d] that is used in place of P_C (Z M): places as in
/// LearntColumns::assignment.
std::vector<std::int64_t> nearest_assignment(const Tensor& m);

struct ColumnLearning {
  std::int64_t steps = 300;
  double lr = 0.05; ///< Adam
  double temperature = 0.5;
  std::function<void(std::int64_t step)> on_progress = {}; ///< before each step; throws to stop
};

struct LearntColumns {
  Tensor matrix;                        ///< [d, d], doubly stochastic: in place of P_C in Z P_C
  std::vector<std::int64_t> assignment; ///< the nearest permutation: feature j of Z P_C is feature assignment[j] of Z
  /// Share of places at which it is the true one.
  double found(const permute::Permutation& truth) const;
};

/// Learns M [dim, dim] and `others` (changed in place) on loss(M, step), which computes with Z M in place of Z P_C and
/// is recorded. Begins at A ~ Normal(0, 0.1^2) from `key`. What the attacker needs is in the loss: labels, or answers.
LearntColumns learn_columns(std::int64_t dim, DType dtype, const ColumnLearning& learning, std::vector<Tensor> others,
                            const std::function<Tensor(const Tensor& m, std::int64_t step)>& loss, RandomKey key);

} // namespace eg::attacks
