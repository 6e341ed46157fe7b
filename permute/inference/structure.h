#pragma once
// Computes the group that remains after a tape was read: its free parts, its size, its elements. Not for users.

#include "permute/inference/hash.h"
#include "permute/inference/points.h"

#include <functional>
#include <optional>
#include <vector>

namespace eg::permute {

/// Points that may change places: those of each cell among themselves. All cells have the same size; a cell goes where
/// its parents go.
struct PointClass {
  std::vector<PointList> cells;
  std::vector<std::size_t> over;         ///< classes of the parents; empty: there is one cell
  std::optional<PermutationGroup> group; ///< of the one cell's points, where not all permutations are allowed
  bool places = false;                   ///< of places (Points::part_places), which go where their points go

  std::int64_t size() const { return static_cast<std::int64_t>(cells.front().size()); }
  std::int64_t copies() const { return static_cast<std::int64_t>(cells.size()); }
  double log2_count() const;
  /// Generators of the permutations of one cell.
  std::vector<Permutation> generators() const;
};

/// A point and how one comes to it: from a child to a parent or back.
struct Link {
  Point point;
  Role role;
  friend auto operator<=>(const Link&, const Link&) = default;
};
using Links = std::vector<Link>;

/// A permutation of all points, as a gather: place p gets what stood at image[p]. Points that others stand for stay.
using PointMap = PointList;

/// Their sum for a class and the parents of a cell finds the cell.
inline std::uint64_t hash_of(std::size_t number) { return mixed(number); }
inline std::uint64_t hash_of(const Link& up) { return mixed(static_cast<std::uint64_t>(up.point) ^ mixed(up.role)); }

class Structure {
public:
  /// Takes what `points` knows; those are changed where several descriptions turn out to be of the same thing, or where
  /// nothing but standing still can be proved.
  explicit Structure(Points& points);

  /// Every class, also those whose cells hold one point (they only go where their parents go), parents before children.
  const std::vector<PointClass>& classes() const { return classes_; }
  /// The class of a point.
  std::size_t class_of(Point p) const;

  /// The element that permutes cell c of class k by permutation(k, c), a gather of the cell's points; nothing stands
  /// for the identity.
  PointMap element(const std::function<std::optional<Permutation>(std::size_t, std::size_t)>& permutation) const;
  /// The map that moves these points as given, carries along what goes with them and leaves the rest: whole blocks go
  /// where their members go, and what is below a block follows in order. Nothing where the points tear a block that is
  /// itself in `held`, or go where what is below them cannot follow. It need not be an element.
  std::optional<PointMap> carried(const PointList& from, const PointList& to, const std::vector<bool>& held) const;
  /// Whether the map is an element: every cell goes to the cell that its parents' images carry.
  bool contains(const PointMap& image) const;
  /// The points, all above them, and all below those.
  PointList related(const PointList& list) const;
  /// log2 of the number of ways in which elements move these points.
  double log2_count_of(const PointList& list) const;
  /// Parents and children of a point that stands for others.
  const Links& above(Point p) const { return above_[static_cast<std::size_t>(p)]; }
  const Links& below(Point p) const { return below_[static_cast<std::size_t>(p)]; }
  Point root(Point p) const { return root_[static_cast<std::size_t>(p)]; }

private:
  struct Graph;
  bool describe(Points& points);
  void add_to_class(const Points& points, Point p, std::size_t number);
  bool settle(Points& points);
  bool search(Points& points, const PointList& some);
  bool take_group(const KeptList& kept);
  /// What all points of a cell have above them.
  const Links& parents_of(std::size_t number, std::size_t cell) const {
    return above_[static_cast<std::size_t>(classes_[number].cells[cell].front())];
  }
  /// Where the cell goes: the cell whose parents are the images of its own. Nothing where there is none.
  const PointList* target(std::size_t number, std::size_t cell, const PointMap& image) const;
  /// Each generator of the class's group, with what it carries along, keeps everything.
  bool holds(std::size_t number, class Invariants& invariants, PointMap& image) const;
  /// Moves the cell by p and what is below it along; the points that moved. Nothing where a cell would be torn.
  std::optional<PointList> carry(std::size_t number, std::size_t cell, const Permutation& p, PointMap& image) const;

  std::vector<PointClass> classes_;
  std::vector<Links> above_, below_;        // by point: parents, children
  PointList root_;                          // by point
  std::vector<std::uint32_t> class_, cell_; // by point that stands for others
  HashIndex cells_;                         // by class and parents: a point of the cell
};

} // namespace eg::permute
