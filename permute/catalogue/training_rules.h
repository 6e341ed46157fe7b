#pragma once
// Update rules that optim/ does not have, made of operations, to ask whether they commute with permutations.

#include "permute/catalogue/training_twins.h"

namespace eg::permute {

/// w - rate sign(b1 m + (1 - b1) g), m = b2 m + (1 - b2) g, b1 = 0.9, b2 = 0.99. Chen et al., "Symbolic Discovery of
/// Optimization Algorithms", 2023, algorithm 2.
Tensor lion(RuleState& state, const RuleStep& step);
/// Matrices: second moments of rows and columns alone, V = r c^T / mean(r). Vectors: one for each element. Shazeer and
/// Stern, "Adafactor", 2018, algorithm 4, without its clipping, which would let b_K's rounding noise into the scale of
/// a fused bias.
Tensor adafactor(RuleState& state, const RuleStep& step);
/// Matrices: momentum made orthogonal by five Newton-Schulz steps; vectors: momentum. Jordan et al., "Muon", 2024.
Tensor muon(RuleState& state, const RuleStep& step);
/// w - rate (along o g): a rate for each element.
Tensor rate_of_element(RuleState& state, const RuleStep& step);
/// Matrices: w - rate g M with a matrix M over the inputs, as methods that project gradients have; vectors: SGD.
Tensor projected(RuleState& state, const RuleStep& step);
/// Momentum whose state is kept in blocks of four neighbours, each with one scale and 15 levels.
Tensor blockwise_momentum(RuleState& state, const RuleStep& step);

} // namespace eg::permute
