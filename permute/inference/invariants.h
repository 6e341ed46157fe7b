#pragma once
// Checks that a map of points keeps everything that was read: rows of axes, parents, joints, constants. Not for
// users.

#include "permute/inference/points.h"

#include <functional>
#include <span>
#include <vector>

namespace eg::permute {

/// What elements of the group must keep, as families of tuples of points: a map is an element when it carries every
/// family to itself. Tuples are compared by sums of 64-bit hashes.
class Invariants {
public:
  explicit Invariants(const Points& points);
  /// The map moves the points `moved` to image[p] and no other.
  bool kept_by(const PointList& moved, const PointList& image);

private:
  struct Member {
    Point point;
    std::uint32_t slot;
  };
  struct Place {
    std::uint32_t tuple, slot;
  };
  using Hash = std::uint64_t;
  using Visit = std::function<void(Hash family, std::span<const Member> members)>;

  static void visit_tuples(const Points& points, const std::vector<Edge>& edges, const Visit& visit);
  static void visit_rows(const Points& points, const Visit& visit);
  static void visit_joints(const Points& points, const Visit& visit);
  static void visit_patterns(const Points& points, const Visit& visit);
  static Hash hash_of(Point p, std::uint32_t slot);

  std::vector<Hash> tuples_;       // with that of the family
  std::vector<std::size_t> begin_; // by point, in places_
  std::vector<Place> places_;
  // Scratch of kept_by.
  std::vector<Hash> change_; // by tuple: what the map adds to its hash; 0 between calls
  std::vector<std::uint32_t> touched_;
};

} // namespace eg::permute
