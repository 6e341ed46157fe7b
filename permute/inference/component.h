#pragma once
// Searches for the group of points that are connected, where blocks and parents do not describe it. Not for users.

#include "permute/inference/points.h"

#include <optional>

namespace eg::permute {

/// Points that may move, with all that they are connected with, and the group of all permutations of them that keep
/// what is known of them.
struct SearchedComponent {
  PointList points;
  PermutationGroup group;
};

/// The component of these points. Nothing where it is too large for a search, or nothing of it can move.
std::optional<SearchedComponent> searched_component(const Points& points, const PointList& some);

} // namespace eg::permute
