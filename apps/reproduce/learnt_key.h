#pragma once
// Learns the feature permutation of an encrypted encoder from labelled images, as an unauthorised user would.

#include "apps/attacks/learnt_columns.h"
#include "apps/reproduce/experiment.h"

#include "data/dataset.h"

#include <functional>
#include <string>
#include <utility>

namespace eg::reproduce {

struct LearntKey {
  double accuracy = 0.0; ///< of the test images, in percent
  attacks::LearntColumns columns;
};

/// Keeps embedding and encoder of the model folder `encrypted` fixed and learns M and the head by Adam on
/// cross_entropy(F2(Enc(F1(x) M) M^T)) (apps/attacks/learnt_columns.h).
/// Numbers of the plan: learn_steps, learn_rate, learn_temperature. Throws Interrupted.
LearntKey learn_key(const Plan& plan, const RunContext& work, const std::string& encrypted,
                    const std::pair<data::ImageDataset, data::ImageDataset>& images, std::uint64_t seed,
                    const std::function<void(double, const std::string&)>& on_progress);

} // namespace eg::reproduce
