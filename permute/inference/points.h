#pragma once
// Represents the points that a model's permutations act on while the inference reads a tape. Not for users.
//
// Every index of every axis of every tensor is a point. Two axes on which the same permutation acts hold the same
// points in the same order. A permutation of an axis may depend on the index along another one (features within a head
// on the head): then there is a point for each pair of indices. A point may have parents, points that it is carried
// along with: feature i of head h goes where head h goes. What is left free when all operations were read is the group.

#include "core/base/error.h"
#include "core/shape.h"
#include "permute/automorphisms.h"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace eg::permute {

/// More points than can be reckoned with.
struct TooManyPoints : ValueError {
  using ValueError::ValueError;
};

using Point = std::int32_t;
using PointList = std::vector<Point>;
/// How a child came below a parent: one number for each slot of a joint and for each call that cut, picked or copied.
using Role = std::uint32_t;
/// The child goes where the parent goes.
struct Edge {
  Point child, parent;
  Role role;
};
/// Lists are shared between the tensors that an operation leaves alone.
using PointsPtr = std::shared_ptr<const PointList>;

/// The points of one axis of extent n: [n], or where the permutation depends on the indices along other axes of the
/// same tensor, `over`, [their extents in that order, n].
struct AxisPoints {
  PointsPtr points = {};
  std::vector<int> over = {};
};

/// The numbers first .. last - 1 are distinguished from the others: they are permuted among themselves.
struct NumberRange {
  std::int64_t first, last;
  std::string reason;
};

/// What the elements of an index tensor number: known when it is used, and shared by all tensors of the same numbers.
struct Numbering {
  PointsPtr points = {};                ///< null: not used yet
  std::string fixed = {};               ///< not empty: the numbers must stay, for this reason
  std::vector<NumberRange> ranges = {}; ///< comparisons before the first use
};

/// The points of one tensor.
struct TensorPoints {
  std::vector<AxisPoints> axes = {};
  std::shared_ptr<Numbering> values = {}; ///< of an index tensor whose elements may be renumbered
  /// Made of constants alone: the values are there and cannot be permuted otherwise than along axes.
  bool constant = false;
  /// Elements may be equal though the leaves are in general position: order among them goes by place.
  bool ties = false;
  /// Equal elements may have other gradients: they are computed along two ways, of which a pause may cut one.
  bool computed_twice = false;
  /// Elements along its axes go by an equation (their mean is 0): what puts them together may be equal.
  bool normalised = false;
  /// Tensor::id of the one tensor that it is computed of; its own, where it is computed of several.
  std::uint64_t base = 0;
  /// Once something reads this tensor these stay, for that reason.
  PointsPtr stay_when_read = {};
  std::string stay_because = {};

  /// Points of an axis, counted from either end.
  const AxisPoints& axis(int a) const {
    return axes[static_cast<std::size_t>(a < 0 ? a + static_cast<int>(axes.size()) : a)];
  }
};

/// Rows of an axis, each with the points at that row's indices along the axes that it depends on.
struct HeldRows {
  PointsPtr list;
  std::int64_t width = 0;
  PointList carriers = {}; ///< [rows, axes that it depends on]
};

/// A constant: elements of one kind go to elements of that kind, by the points of its axes.
struct Pattern {
  std::vector<PointsPtr> axes = {};
  std::vector<std::int64_t> kinds = {}; ///< row-major: numbers, equal for what is of one kind
  std::string reason;
};

/// Points that a group moves which is smaller than that of all permutations.
struct KeptList {
  PointsPtr list;
  PermutationGroup group;
  std::string reason;
  /// Points that may be exchanged for each other, whatever else happens: what is left where the group cannot be had.
  std::vector<PointList> exchangeable = {};
};

class Points {
public:
  /// n new points that an axis holds.
  PointsPtr fresh(std::int64_t n);
  /// n new points below those of each row of carriers. No axis holds them yet.
  PointsPtr below(const std::vector<PointList>& carriers, std::int64_t n);
  /// The point that stands for p and all that were united with it.
  Point find(Point p) const;
  /// The same permutation acts on both lists, which are equally long and have rows of `width` points. One axis in two
  /// orders becomes a pattern.
  void unite(const PointsPtr& a, const PointsPtr& b, std::int64_t width);
  /// How often one axis was united with itself in another order.
  std::int64_t reorders() const { return reorders_; }
  /// Both are one point from now on.
  void merge(Point a, Point b);
  /// What moves when an axis that holds p moves: its place where it has one, else find(p).
  Point vertex(Point p) const;
  /// Forgets that these go with each other, directly or through their children, and fixes them.
  void drop_parents(const PointList& list, const std::string& reason);
  /// These points must stay where they are; the first reason given is kept.
  void fix(const PointList& list, const std::string& reason);
  /// A list that an axis of extent `width` holds is mapped to itself.
  void hold(const PointsPtr& list, std::int64_t width);
  /// All axes of a tensor are mapped to themselves, rows along with the indices that they depend on.
  void hold(const TensorPoints& t, const Shape& shape);
  /// The list is permuted by elements of a group alone; `exchangeable` as in KeptList.
  void keep_to(const PointsPtr& list, PermutationGroup group, std::vector<PointList> exchangeable,
               const std::string& reason);
  /// Of a list that was kept to a group, exchangeable points move; the others stay.
  void give_up_group(std::size_t kept);
  /// These points move by this group alone. Points that it leaves are fixed; so is all that they were connected with.
  void close(const PointList& list, PermutationGroup group, const std::string& reason);
  /// It moves by a group that close() was given.
  bool is_closed(Point p) const { return is_closed_[static_cast<std::size_t>(p)]; }
  void add_pattern(Pattern pattern) { patterns_.push_back(std::move(pattern)); }
  const std::vector<Pattern>& patterns() const { return patterns_; }

  /// Gives every point that was united with another point of the same row a place, a child that says which of them it
  /// is; lists that were united share places. Points that are united with themselves in another order are fixed.
  /// Points that stand in two columns of what rows have in common are fixed.
  void part_places();
  bool is_place(Point p) const { return is_place_[static_cast<std::size_t>(p)]; }
  /// A place that shares another one.
  bool is_idle(Point p) const { return is_idle_[static_cast<std::size_t>(p)]; }

  /// One point for each tuple of parents: axes joined to one. The same tuple gives the same point.
  /// `slots`: new_slots() of the call that joins.
  Point joint(PointList parents, Role slots);
  /// The first of two roles, for the two parents of a joint.
  Role new_slots() { return std::exchange(next_role_, next_role_ + 2); }
  /// Points of rows of `width` points each: the list cut into blocks, each point below its block's. The same list cut
  /// alike gives the same blocks.
  PointsPtr blocks(const PointsPtr& list, std::int64_t width);
  /// What a list [before, rows, after] has in common in all rows, where a permutation can no longer depend on the row:
  /// [before, after] new points above those of the list. The same list gives the same points.
  PointsPtr common(const PointsPtr& list, std::int64_t before, std::int64_t rows);
  /// A joined list and what it was joined from: axes of those extents, `over` counted among them.
  void remember_parts(const PointsPtr& list, std::vector<std::int64_t> extents, const std::vector<AxisPoints>& parts);
  /// The parts of a list of those extents; nullptr when it is not known as such.
  const std::vector<AxisPoints>* parts(const PointsPtr& list, const std::vector<std::int64_t>& extents) const;
  /// list[index[j]] for each j, as new points below those where an index occurs twice.
  PointsPtr picked(const PointsPtr& list, const std::vector<std::int64_t>& index);
  /// One list behind the other; where a point occurs again, a new one below it. same[k]: the first list that is of the
  /// same tensor as list k; places of a point in such lists can be exchanged.
  PointsPtr chained(const std::vector<PointsPtr>& lists, const std::vector<std::size_t>& same);

  std::int64_t count() const { return static_cast<std::int64_t>(up_.size()); }
  /// Those of find() points; where a child or a parent has a place, also those of vertices.
  std::vector<Edge> edges() const;
  const std::vector<PointsPtr>& held() const { return held_; }
  /// The held lists with the extents of their axes, each once.
  const std::vector<HeldRows>& rows() const { return rows_; }
  /// By parents: every joint point with its first slot.
  const std::map<PointList, std::pair<Point, Role>>& joined() const { return joints_; }
  const std::vector<KeptList>& kept() const { return kept_; }
  /// Why a point is fixed; nullptr: it is not.
  const std::string* reason(Point p) const;

private:
  PointsPtr allocated(std::int64_t n);
  void add_parent(Point child, Point parent, Role role) { edges_.push_back({child, parent, role}); }
  Role new_role() { return next_role_++; }
  void join_places();
  bool is_reordered(const PointList& a, const PointList& b) const;
  struct RowStamps {
    std::vector<std::uint64_t> row_of; // by point: the last row that held it
    std::uint64_t row = 0;
  };
  bool stands_twice(const PointsPtr& list, std::int64_t width, std::vector<bool>* where, RowStamps& stamps) const;
  void fix_torn_columns();

  static constexpr Role place_role = 0;
  mutable PointList up_;
  std::vector<Edge> edges_;
  Role next_role_ = 1;
  std::vector<PointsPtr> held_;
  std::vector<HeldRows> rows_;
  std::set<std::tuple<PointsPtr, std::int64_t, std::vector<PointsPtr>>> known_rows_; // extents, carriers' lists
  std::vector<std::tuple<PointsPtr, PointsPtr, std::int64_t>> united_;
  PointList place_, own_place_; // by point: the place that it shares, and the one made for it; -1: none
  std::vector<bool> is_idle_;   // by point: a place that is not used
  std::vector<bool> is_place_;  // by point
  std::vector<bool> is_closed_; // by point
  std::vector<KeptList> kept_;
  std::vector<Pattern> patterns_;
  std::int64_t reorders_ = 0;
  std::vector<std::int32_t> reason_; // by point: index into reasons_, -1: none
  std::vector<std::string> reasons_;
  std::map<PointList, std::pair<Point, Role>> joints_;
  std::map<std::pair<PointsPtr, std::int64_t>, PointsPtr> blocks_;
  std::map<std::pair<PointsPtr, std::vector<std::int64_t>>, std::vector<AxisPoints>> parts_;
  /// What the rows of a list [before, rows, after] have in common.
  struct Columns {
    PointsPtr list, common;
    std::size_t rows, after;
    std::size_t column(std::size_t i) const { return i / (rows * after) * after + i % after; }
  };
  std::vector<Columns> columns_;
  std::map<std::tuple<PointsPtr, std::int64_t, std::int64_t>, PointsPtr> common_;
};

} // namespace eg::permute
