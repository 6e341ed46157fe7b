#pragma once
// Shares the reductions of the losses and the small functions that they are composed of.

#include "core/ops/row_tools.h"

#include <span>
#include <string>
#include <vector>

namespace eg::loss_parts {

constexpr AttrSpec reduction_attr = attr_text("reduction", "mean", "mean, sum or none");

/// Throws ValueError unless the attribute `reduction` is mean, sum or none (or, where allowed, batchmean).
void check_reduction(const OpArgs& args, bool batchmean = false);
/// The shape that `losses` has after the reduction.
Shape reduced_shape(const OpArgs& args, const Shape& losses);
/// The losses as they are, their sum, or their mean; batchmean: the sum over the extent of the first axis. The mean of
/// nothing is 0.
Tensor reduced(const OpArgs& args, const Tensor& losses);
/// True for one loss that is infinite or NaN; false for a shape without values.
bool left_the_type(const Tensor& loss);
/// The same as `reduced` in plain loops.
Tensor reduced_reference(const OpArgs& args, const Tensor& losses);

/// Throws ShapeError unless input i, where given, broadcasts to `shape`.
void check_broadcasts(const OpArgs& args, std::size_t i, const Shape& shape);

/// Attributes of a sample with a reduction.
inline Attrs reducing(const char* word) { return {{"reduction", std::string(word)}}; }

} // namespace eg::loss_parts
