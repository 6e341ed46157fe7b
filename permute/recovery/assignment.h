#pragma once
// Solves minimum-cost assignment.

#include "core/tensor.h"

namespace eg::permute {

/// Pairs (rows[i], columns[i]), rows in ascending order, i64.
struct Assignment {
  Tensor rows;
  Tensor columns;
};

/// The min(N, M) pairs of distinct rows and columns of cost [N, M] (f32 or f64) with the least sum of costs (maximize:
/// the largest). +inf (maximize: -inf) forbids a pair. Throws ValueError for a NaN, for an infinity of the other sign,
/// and when the forbidden pairs leave no assignment; ShapeError unless cost has two axes. O(min(N, M)^2 max(N, M)).
///
/// Shortest augmenting paths: Jonker and Volgenant, Computing 38 (1987); rectangular: Crouse, IEEE Trans. Aerospace and
/// Electronic Systems 52 (2016).
Assignment hungarian(const Tensor& cost, bool maximize = false);

} // namespace eg::permute
