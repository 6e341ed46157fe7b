#pragma once
// Aligns features that are permuted afresh in every query, by rows that the queries have in common.

#include "core/tensor.h"
#include "permute/permutation.h"

#include <vector>

namespace eg::attacks {

/// For each query the gather that puts its features into the order of the first query's. shared [Q, S, d]: rows that
/// are the same in all queries but for the order of features (a class token, the beginning of a text); columns are
/// matched. Sees: features of Q queries. Exact when no two features are equal in all shared rows. O(Q S d^2).
/// After the alignment of shuffled activations in arXiv 2605.04901 (ACL 2026). Throws ShapeError.
std::vector<permute::Permutation> align_queries(const Tensor& shared);

} // namespace eg::attacks
