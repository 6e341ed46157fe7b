#pragma once
// Matches known items with observed ones, the core of most exact attacks.

#include "core/tensor.h"

#include <cstdint>
#include <vector>

namespace eg::permute {

/// |a_i - b_j|^2 of the rows of a [n, k] and b [m, k], f64 [n, m]; never negative. O(n m k). Throws ShapeError.
Tensor squared_distances(const Tensor& a, const Tensor& b);
/// sum_k |a_ik - b_jk|, f64 [n, m].
Tensor absolute_distances(const Tensor& a, const Tensor& b);

/// For each row of distances [n, m], n <= m, the column that it is matched with, each column once, with the least sum
/// (hungarian). O(n^2 m), O(n m) where every row's nearest column is another.
std::vector<std::int64_t> best_match(const Tensor& distances);
/// For each row of distances [n, m] the nearest column; several rows may have the same. O(n m).
std::vector<std::int64_t> nearest_match(const Tensor& distances);

/// Every row in ascending order: what is left of a row whose elements may have been permuted.
Tensor sorted_rows(const Tensor& x);

} // namespace eg::permute
