#pragma once
// Demonstrates the variant that fails (paper 004, section 4): permuting tokens instead of features, through masked
// attention.

#include "permute/block_weights.h"

namespace eg::attacks {

/// What a decoder does to tokens in another order. Differences are max |a - b| / max |b|, against the plain output
/// brought into that order.
struct FailedRows {
  std::int64_t tokens = 0;
  double with_plain_mask = 0.0;    ///< the causal mask as it is: the output is another one
  double with_permuted_mask = 0.0; ///< P_R M P_R^T: the output is right,
  double recovered = 0.0;          ///< and the share of P_R that the cloud reads off that mask
  double without_mask = 0.0;       ///< control: no mask at all, as in an encoder: the output is right
};

/// Of `tokens` tokens with random features (or embedded ones, where `z` [1, T, d] is given), through the model's blocks
/// in f64; rotary positions are permuted with their tokens. Throws ValueError for a model that is not a decoder, or
/// fewer than two tokens.
FailedRows demonstrate_failed_rows(const permute::BlockWeights& decoder, const Tensor& z, RandomKey key);

} // namespace eg::attacks
