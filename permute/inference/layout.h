#pragma once
// Transforms the points of axes when axes are renumbered, cut, joined and indexed. Not for users.

#include "permute/inference/points.h"

#include <cstdint>
#include <vector>

namespace eg::permute {

/// Points for a tensor of that shape that move freely, each axis for itself.
TensorPoints fresh_points(Points& points, const Shape& shape);

/// Points for a tensor of that shape where the permutation along each axis a may depend on the axes over[a]; those that
/// these depend on are among them, and there are no circles.
TensorPoints dependent_points(Points& points, const Shape& shape, const std::vector<std::vector<int>>& over);

/// Axes of extent 2 and more with equal products on both sides of a reshape.
struct AxisMatch {
  std::vector<int> from, to;
};
std::vector<AxisMatch> axis_matches(const Shape& from, const Shape& to);

/// The axis where its permutation may depend on the axes of `keep` alone, in the order of `keep` as far as it did.
AxisPoints over_only(Points& points, const Shape& shape, const AxisPoints& axis, const std::vector<int>& keep);
/// The axis as one list that depends on no other axis.
PointsPtr independent(Points& points, const Shape& shape, const AxisPoints& axis);
/// Each axis number in `over` becomes to[number]; none of them may be gone (-1).
AxisPoints renumbered(AxisPoints axis, const std::vector<int>& to);

/// Axis i of the result is axis order[i].
TensorPoints transposed(const TensorPoints& t, const std::vector<int>& order);
/// The same elements in row-major order under other extents: an axis that is cut becomes blocks and what is in them,
/// axes that are joined become pairs (points of both).
TensorPoints reshaped(Points& points, const TensorPoints& t, const Shape& from, const Shape& to);
/// Indices `index` along one axis.
TensorPoints picked(Points& points, const TensorPoints& t, const Shape& shape, int axis,
                    const std::vector<std::int64_t>& index);
/// One behind the other along `axis`; what else the tensors hold is united. `same`: for each part the first one that is
/// the same tensor; empty: all are different.
TensorPoints concatenated(Points& points, const std::vector<TensorPoints>& parts, const std::vector<Shape>& shapes,
                          int axis, std::vector<std::size_t> same = {});

} // namespace eg::permute
