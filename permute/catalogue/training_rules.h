#pragma once
// Implements update rules that optim/ lacks, composed of operations, to test whether they commute with permutations.

#include "permute/catalogue/training_twins.h"

namespace eg::permute {

/// w - rate (along o g): a rate for each element.
Tensor rate_of_element(RuleState& state, const RuleStep& step);
/// Matrices: w - rate g M with a matrix M over the inputs, as methods that project gradients have; vectors: SGD.
Tensor projected(RuleState& state, const RuleStep& step);
/// Momentum whose state is kept in blocks of four neighbours, each with one scale and 15 levels.
Tensor blockwise_momentum(RuleState& state, const RuleStep& step);

} // namespace eg::permute
