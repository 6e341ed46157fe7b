#pragma once
// Searches for the group of points that are connected, where blocks and parents do not describe it. Not for users.

#include "permute/inference/points.h"

#include <optional>
#include <vector>

namespace eg::permute {

/// Points that may move, with all that they are connected with, and the group of all permutations of them that keep
/// lists, rows, edges and patterns. It is left to Invariants whether they keep joints.
struct SearchedComponent {
  PointList points;
  PermutationGroup group;
};

/// The components of these points, as one. Nothing where they have more than 160 points or tuples of points, or nothing
/// of them can move.
std::optional<SearchedComponent> searched_component(const Points& points, const PointList& some);
/// These points, those of each component for themselves.
std::vector<PointList> connected_parts(const Points& points, const PointList& some);

} // namespace eg::permute
