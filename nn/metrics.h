#pragma once
// Computes figures of merit of predictions, counted exactly. Plain functions: they give numbers or counts, not
// gradients.

#include "core/tensor.h"

namespace eg::nn {

/// How many rows of logits [N, C] have their label [N] among the k largest: fewer than k logits are larger, or equal
/// and further left. A NaN counts as larger than everything; a row whose label has a NaN is wrong. Throws ShapeError,
/// DTypeError, IndexError for a label outside [0, C), ValueError for k < 1.
std::int64_t count_in_top(const Tensor& logits, const Tensor& labels, std::int64_t k = 1);
/// The share of rows: count_in_top / N. Throws the same, and ValueError for N = 0.
double top_k_accuracy(const Tensor& logits, const Tensor& labels, std::int64_t k = 1);

/// Area under the ROC curve: the probability that a positive scores higher than a negative, ties counted half, as an
/// exact rank statistic. scores [N] floating, labels [N] i64 or bool, 0 or 1. Throws ValueError when a class is missing
/// or a score is NaN.
/// Hanley and McNeil, Radiology 143 (1982): the Wilcoxon statistic.
double auc(const Tensor& scores, const Tensor& labels);

/// counts[i, j] = how many with label i were predicted as j: [classes, classes] i64; predictions and labels have one
/// shape, i64. Throws IndexError for a number outside [0, classes).
Tensor confusion_matrix(const Tensor& predictions, const Tensor& labels, std::int64_t classes);

} // namespace eg::nn
