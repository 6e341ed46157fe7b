#pragma once
// Recovers tokens from what attention reveals beside the features: masks, scores, the key-value cache.

#include "core/tensor.h"
#include "permute/permutation.h"

#include <cstdint>
#include <vector>

namespace eg::attacks {

/// P_R from a causal mask that was permuted along, M' = P_R M P_R^T: row i of M' sees r[i] + 1 tokens. mask [T, T],
/// boolean (true: seen) or added (0: seen). Sees: the mask. O(T^2). STIP (paper 004), section 4. Throws ShapeError,
/// ValueError when the rows do not see 1, 2, ..., T tokens: the mask is not causal.
permute::Permutation rows_of_causal_mask(const Tensor& mask);

/// P_R from attention scores S' = P_R S P_R^T [heads, T, T] of an input whose plain S is known: row i is described by
/// the diagonal and the sorted row and column of every head, heads matched first (whole heads may have moved). Exact
/// when no two tokens have the same description. Sees: S'. O(heads T^2 log T + T^2 heads T). Throws ShapeError.
permute::Permutation rows_by_attention(const Tensor& observed, const Tensor& known);

/// Which of `candidates` (each [heads, T, T]) has the scores that were seen, in any order of tokens: the sorted scores
/// of every head are compared, heads matched first. A permutation of features leaves S as it is, so that this needs no
/// key. Throws ShapeError unless all have one shape.
std::size_t text_by_attention(const Tensor& observed, const std::vector<Tensor>& candidates);

/// The order of a cache's features.
enum class CacheForm : std::uint8_t {
  plain, ///< as in the plain model: STIP's first version, W' = W pi, and any scheme that moves the residual alone
  within_heads, ///< permuted within each head, STIP's second version
};
/// The text whose values (or keys) of the first layer are in a cloud's cache [heads, T, head_dim], against those of
/// every token of the vocabulary [heads, V, head_dim]: nearest ones, sorted within heads first where features may be
/// permuted. Nothing of pi is needed. O(V T d). Throws ShapeError.
std::vector<std::int64_t> text_by_cache(const Tensor& cached, const Tensor& vocabulary, CacheForm form);

} // namespace eg::attacks
