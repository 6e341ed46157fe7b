#pragma once
// Finds the axes that a reduction removes, and the shape that is left.

#include "core/op.h"

#include <array>

namespace eg::reduce {

/// One flag per axis of x.
using Reduced = std::array<bool, max_rank>;

/// Flags of the axes in the list (negative ones count from the end; the empty list means all). Throws IndexError for an
/// axis outside the shape, ValueError for one named twice.
Reduced reduced_axes(std::string_view op, const std::vector<std::int64_t>& axes, const Shape& shape);

/// The axes that a sum to `target` takes away: aligned at the last axis, where the target has 1 or no such axis.
/// Throws ShapeError when x of this shape is not a broadcast of the target.
Reduced summed_axes(std::string_view op, const Shape& shape, const Shape& target);

/// Shape after the reduction; reduced axes become 1 (keepdim) or are removed.
Shape reduced_shape(const Shape& shape, const Reduced& reduced, bool keepdim);

/// Number of elements that go into one of the result.
std::int64_t reduced_count(const Shape& shape, const Reduced& reduced);

/// Kept axes move with the output's; permuting a reduced axis changes nothing.
std::vector<Symmetry> reduction_symmetries(const Shape& shape, const Reduced& reduced, bool keepdim);

} // namespace eg::reduce
