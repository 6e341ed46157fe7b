#pragma once
// An unauthorised user who learns the feature permutation of an encrypted encoder from labelled images.

#include "permute/permutation.h"
#include "reproduce/experiment.h"

#include "data/dataset.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace eg::reproduce {

struct LearntKey {
  double accuracy = 0.0;                ///< of the test images, in percent
  std::vector<std::int64_t> assignment; ///< the nearest permutation: feature j of the encoder's input is assignment[j]
  /// Share of places at which it is the true one.
  double found(const permute::Permutation& truth) const;
};

/// The permutation nearest to a doubly stochastic M [d, d] that stands before the encoder (z M): places as in
/// LearntKey::assignment.
std::vector<std::int64_t> nearest_assignment(const Tensor& m);

/// Keeps embedding and encoder of the model folder `encrypted` fixed and learns M and the head by Adam on
/// cross_entropy(F2(Enc(F1(x) M) M^T)), where M is doubly stochastic: exp(A / t), its rows and columns divided by their
/// sums in turn (Sinkhorn; Mena et al., "Learning latent permutations with Gumbel-Sinkhorn networks", ICLR 2018).
/// Numbers of the plan: learn_steps, learn_rate, learn_temperature. Throws Interrupted.
LearntKey learn_key(const Plan& plan, const Workplace& work, const std::string& encrypted,
                    const std::pair<data::ImageDataset, data::ImageDataset>& images, std::uint64_t seed,
                    const std::function<void(double, const std::string&)>& tell);

} // namespace eg::reproduce
