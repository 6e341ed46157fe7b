#pragma once
// Implements the encoder block of paper 000's section 7 (eq. 14-21): one head, no output projection, no residual, no
// norm, no bias.
//   Q, K, V = Z W_Q^T, Z W_K^T, Z W_V^T;  E = Q K^T / sqrt(d);  S = softmax(E);  A = S V;
//   A1 = A W_1^T;  H = gelu(A1);  A2 = H W_2^T;  A3 = A2, permuted back.

#include "permute/catalogue/case.h"

#include <map>
#include <string>

namespace eg::permute {

/// Tensors by the papers' symbols: Z Q K V E S A A1 H A2 A3, WQ WK WV W1 W2.
using Symbols = std::map<std::string, Tensor, std::less<>>;

/// Values of one forward pass, and dl/d(symbol) for each of them, from one tape.
struct Pass {
  Symbols value;
  Symbols gradient;
};

/// Rows of Z, its columns, and the MLP's hidden axis.
struct BlockSizes {
  std::int64_t tokens, dim, hidden;
};
/// Those of the options; all weights square; every matrix square, so that each misprinted product has a shape.
BlockSizes sizes_of(const Case& c);
BlockSizes square_weights(const Case& c);
BlockSizes all_square(const Case& c);

/// Draws Z [tokens, dim] and the weights, all dense and of a size that keeps softmax away from uniform.
Symbols draw_block(Case& c, const BlockSizes& sizes);

/// Runs the block on inputs.at("Z") and takes every gradient of l = sum(g * gelu(A3)). Where rows and columns are
/// given, A3 = P_R^T A2 P_C^T; otherwise A3 = A2.
Pass run_block(const Symbols& inputs, const Tensor& g, const Permutation* rows = nullptr,
               const Permutation* columns = nullptr);

/// Z_(P) = P_R Z P_C and the weights of Enc_(P): P_C^T W P_C for Q, K, V; W_1 P_C; P_C^T W_2.
Symbols permuted_inputs(const Symbols& inputs, const Permutation& rows, const Permutation& columns);

/// The same in paper 001's form: W_(P) = P W P^-1 for all five weights, which must be square. `columns` is its P^-1,
/// our P_C.
Symbols conjugated_inputs(const Symbols& inputs, const Permutation& rows, const Permutation& columns);

/// The plain and the permuted pass with their permutations, neither of which is its own inverse.
struct BlockTwins {
  Permutation rows, columns;
  Tensor g;
  Pass plain, permuted;
};
BlockTwins run_twins(Case& c, const BlockSizes& sizes);
/// With the sizes of the options.
BlockTwins run_twins(Case& c);
/// Paper 001's form, on square weights (sizes.hidden is sizes.dim).
BlockTwins run_conjugated_twins(Case& c, const BlockSizes& sizes);
BlockTwins run_conjugated_twins(Case& c);

} // namespace eg::permute
