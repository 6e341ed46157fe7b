#pragma once
// Decides what permutations keep the constants of a model. Not for users.

#include "permute/inference/points.h"

#include <vector>

namespace eg::permute {

/// The pattern of a constant's values, by the points of its axes.
Pattern pattern_of(const Tensor& values, std::vector<PointsPtr> axes, std::string reason);

/// The pattern without the axes along which all is alike; axes may be all of them.
Pattern reduced(const Pattern& pattern);
std::size_t extent_of(const Pattern& p, std::size_t axis);
/// Elements between two neighbours along an axis.
std::size_t stride_of(const Pattern& p, std::size_t axis);
/// The kinds at each index of an axis.
std::vector<std::vector<std::int64_t>> slices_of(const Pattern& p, std::size_t axis);
/// The kind that most elements have: elements of the other kinds say all.
std::int64_t most_frequent_kind(const Pattern& pattern);
/// Row-major indices of an element.
std::vector<std::int64_t> indices_of(const Pattern& pattern, std::size_t element);

/// By point: the sum of the hashes of the held lists that it, or its place, stands in.
std::vector<std::uint64_t> marks_of_lists(const Points& points);

/// Points that patterns share move by automorphisms of all these patterns. Where those cannot be found, points
/// with equal slices move.
void settle_patterns(Points& points);

} // namespace eg::permute
