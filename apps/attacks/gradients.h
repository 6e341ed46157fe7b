#pragma once
// Recovers labels from gradients.

#include "core/tensor.h"

#include <cstdint>
#include <vector>

namespace eg::attacks {

/// Labels from gradients at the cut, [B, d]: what an edge with the head sends back for each sample's class token. Those
/// of one class point one way, as W_head^T (p - onehot), so each sample has the label of the example (one a class, [C,
/// d], under the same key) with the largest cosine. A permutation of features leaves cosines as they are. O(B C d).
/// Li et al., "Label leakage and protection in two-party split learning", ICLR 2022 (arXiv 2102.08504). Statistical:
/// right as long as p is not near one-hot. Throws ShapeError.
std::vector<std::int64_t> labels_from_cut_gradients(const Tensor& gradients, const Tensor& examples);

/// Which row the class token is in: behind a head that reads it alone, every other row of dL/dZ [T, d] is zero. The
/// row with the largest norm. O(T d).
std::int64_t class_token_row(const Tensor& gradient);

} // namespace eg::attacks
