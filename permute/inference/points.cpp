#include "permute/inference/points.h"

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "permute/inference/at.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

namespace eg::permute {

PointsPtr Points::fresh(std::int64_t n) {
  PointsPtr list = allocated(n);
  hold(list, n);
  return list;
}

PointsPtr Points::below(const std::vector<PointList>& carriers, std::int64_t n) {
  PointsPtr list = allocated(static_cast<std::int64_t>(carriers.size()) * n);
  std::vector<Role> roles;
  for (std::size_t row = 0; row < carriers.size(); ++row)
    for (std::size_t k = 0; k < carriers[row].size(); ++k) {
      if (roles.size() <= k) roles.push_back(new_role());
      for (std::int64_t i = 0; i < n; ++i) add_parent((*list)[row * at(n) + at(i)], carriers[row][k], roles[k]);
    }
  return list;
}

PointsPtr Points::allocated(std::int64_t n) {
  poll_interrupt();
  constexpr std::int64_t most = std::int64_t{1} << 25; // some GiB in all
  if (n > most - count())
    throw TooManyPoints(fmt::format("symmetries: the axes of this model have more than {} indices in all", most));
  auto list = std::make_shared<PointList>(at(n));
  std::iota(list->begin(), list->end(), static_cast<Point>(up_.size()));
  up_.insert(up_.end(), list->begin(), list->end());
  reason_.resize(up_.size(), -1);
  place_.resize(up_.size(), -1);
  own_place_.resize(up_.size(), -1);
  is_idle_.resize(up_.size(), false);
  is_place_.resize(up_.size(), false);
  is_closed_.resize(up_.size(), false);
  return list;
}

Point Points::find(Point p) const {
  while (up_[at(p)] != p) p = up_[at(p)] = up_[at(up_[at(p)])];
  return p;
}

Point Points::vertex(Point p) const { return place_[at(p)] < 0 ? find(p) : place_[at(p)]; }

void Points::merge(Point a, Point b) {
  const Point x = find(a), y = find(b);
  const auto [kept, gone] = std::minmax(x, y);
  up_[at(gone)] = kept;
  if (reason_[at(kept)] < 0) reason_[at(kept)] = reason_[at(gone)];
}

void Points::unite(const PointsPtr& a, const PointsPtr& b, std::int64_t width) {
  if (a == b) return;
  if (width == static_cast<std::int64_t>(a->size()) && is_reordered(*a, *b)) {
    // What moves the one moves the other where it commutes with the order: each point goes with the one at its place.
    Pattern order{{a, a},
                  std::vector<std::int64_t>(a->size() * a->size(), 0),
                  "an axis is combined with itself in another order"};
    std::unordered_map<Point, std::size_t> place;
    for (std::size_t j = 0; j < a->size(); ++j) place[find((*a)[j])] = j;
    for (std::size_t i = 0; i < a->size(); ++i) order.kinds[i * a->size() + place.at(find((*b)[i]))] = 1;
    add_pattern(std::move(order));
    ++reorders_;
    hold(a, width);
    hold(b, width);
    return;
  }
  for (std::size_t i = 0; i < a->size(); ++i) merge((*a)[i], (*b)[i]);
  united_.emplace_back(a, b, width);
  hold(a, width);
  hold(b, width);
}

/// The same points, each once, in two orders; short enough for a table of pairs.
bool Points::is_reordered(const PointList& a, const PointList& b) const {
  constexpr std::size_t most = 256;
  if (a.size() > most || a.size() != b.size()) return false;
  const auto roots = [&](const PointList& list) {
    PointList all;
    for (const Point p : list) all.push_back(find(p));
    return all;
  };
  PointList x = roots(a), y = roots(b);
  if (x == y) return false;
  std::sort(x.begin(), x.end());
  std::sort(y.begin(), y.end());
  return x == y && std::adjacent_find(x.begin(), x.end()) == x.end();
}

void Points::fix(const PointList& list, const std::string& reason) {
  if (list.empty()) return;
  if (reasons_.empty() || reasons_.back() != reason) reasons_.push_back(reason);
  for (const Point p : list) {
    std::int32_t& own = reason_[at(find(p))];
    if (own < 0) own = static_cast<std::int32_t>(reasons_.size() - 1);
  }
}

void Points::drop_parents(const PointList& list, const std::string& reason) {
  std::vector<bool> listed(up_.size(), false);
  for (const Point p : list) listed[at(find(p))] = true;
  const auto within = [&](Point p) { return listed[at(find(p))] || listed[at(vertex(p))]; };
  fix(list, reason);
  if (std::erase_if(edges_, [&](const Edge& e) { return within(e.child) && within(e.parent); }) > 0) return;
  std::erase_if(edges_, [&](const Edge& e) { // they go through children
    if (within(e.parent)) fix({e.child}, reason);
    return within(e.parent);
  });
}

void Points::hold(const PointsPtr& list, std::int64_t width) {
  if (list == nullptr || list->empty() || width < 1) return;
  if (!known_rows_.insert({list, width, {}}).second) return;
  held_.push_back(list);
  rows_.push_back({list, width});
}

void Points::hold(const TensorPoints& t, const Shape& shape) {
  for (int number = 0; number < shape.rank(); ++number) {
    const AxisPoints& axis = t.axis(number);
    hold(axis.points, shape[number]);
    std::vector<PointsPtr> lists;
    std::int64_t rows = 1;
    for (const int other : axis.over) {
      lists.push_back(t.axis(other).points);
      rows *= shape[other];
    }
    if (lists.empty() || shape.numel() == 0 ||
        !known_rows_.insert({axis.points, shape[number], std::move(lists)}).second)
      continue;
    HeldRows held{axis.points, shape[number]};
    std::vector<std::int64_t> index(at(shape.rank()), 0);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::int64_t rest = row;
      for (std::size_t k = axis.over.size(); k-- > 0; rest /= shape[axis.over[k]])
        index[at(axis.over[k])] = rest % shape[axis.over[k]];
      for (const int other : axis.over) {
        std::int64_t place = 0;
        for (const int further : t.axis(other).over) place = place * shape[further] + index[at(further)];
        held.carriers.push_back((*t.axis(other).points)[at(place * shape[other] + index[at(other)])]);
      }
    }
    rows_.push_back(std::move(held));
  }
}

/// Some row holds different points that were united; they are marked in `where`.
bool Points::stands_twice(const PointsPtr& list, std::int64_t width, std::vector<bool>* where,
                          RowStamps& stamps) const {
  stamps.row_of.resize(up_.size(), 0);
  bool any = false;
  for (std::size_t i = 0; i < list->size(); ++i) {
    if (i % at(width) == 0) ++stamps.row;
    const std::size_t p = at(find((*list)[i]));
    if (std::exchange(stamps.row_of[p], stamps.row) != stamps.row) continue;
    any = true;
    if (where != nullptr) (*where)[p] = true;
  }
  return any;
}

void Points::fix_torn_columns() {
  PointList first(up_.size(), -1); // by point: its column
  for (const Columns& own : columns_) {
    for (std::size_t i = 0; i < own.list->size(); ++i) {
      const Point p = find((*own.list)[i]), column = find((*own.common)[own.column(i)]);
      if (first[at(p)] < 0) first[at(p)] = column;
      if (first[at(p)] != column) fix({p, column, first[at(p)]}, "an axis stands in two rows in another order");
    }
    for (const Point p : *own.list) first[at(find(p))] = -1;
  }
}

void Points::part_places() {
  fix_torn_columns();
  std::vector<bool> twice(up_.size(), false);
  bool any = false;
  RowStamps stamps;
  for (const HeldRows& rows : rows_) any = stands_twice(rows.list, rows.width, &twice, stamps) || any;
  if (!any) return;
  for (std::size_t p = 0; p < twice.size(); ++p) {
    if (is_place_[p] || place_[p] >= 0 || !twice[at(find(static_cast<Point>(p)))]) continue;
    place_[p] = own_place_[p] = allocated(1)->front();
    is_place_[at(place_[p])] = true;
  }
  join_places();
}

void Points::join_places() {
  // Points at equal indices of united lists, where a root does not say which they are.
  PointList up(up_.size());
  std::iota(up.begin(), up.end(), Point{0});
  const auto top = [&](Point p) {
    while (up[at(p)] != p) p = up[at(p)] = up[at(up[at(p)])];
    return p;
  };
  RowStamps stamps;
  for (const auto& [a, b, width] : united_)
    if (stands_twice(a, width, nullptr, stamps))
      for (std::size_t i = 0; i < a->size(); ++i) up[at(top((*a)[i]))] = top((*b)[i]);
  std::vector<bool> again(up_.size(), false);     // by top: it stands in a row twice
  std::vector<std::size_t> row_of(up_.size(), 0); // by top: the last row that held it
  std::size_t row = 0;
  for (const HeldRows& rows : rows_)
    for (std::size_t i = 0; i < rows.list->size(); ++i) {
      if (i % at(rows.width) == 0) ++row;
      const Point p = (*rows.list)[i];
      if (place_[at(p)] < 0) continue;
      std::size_t& seen = row_of[at(top(p))];
      if (seen == row) again[at(top(p))] = true;
      seen = row;
    }
  for (std::size_t p = 0; p < own_place_.size(); ++p) {
    if (own_place_[p] < 0) continue;
    const Point first = top(static_cast<Point>(p));
    if (again[at(first)]) fix({static_cast<Point>(p), own_place_[p]}, "an axis is added to itself in another order");
    place_[p] = again[at(first)] ? own_place_[p] : own_place_[at(first)];
    is_idle_[at(own_place_[p])] = place_[p] != own_place_[p];
  }
}

std::vector<Edge> Points::edges() const {
  std::vector<Edge> all;
  all.reserve(edges_.size());
  for (const Edge& e : edges_) {
    const Point child = find(e.child), parent = find(e.parent);
    if (child != parent) all.push_back({child, parent, e.role});
    if (place_[at(e.child)] < 0 && place_[at(e.parent)] < 0) continue;
    const Point own = vertex(e.child), above = vertex(e.parent);
    if (own != above) all.push_back({own, above, e.role + (Role{1} << 31)});
  }
  for (std::size_t p = 0; p < place_.size(); ++p)
    if (place_[p] >= 0) all.push_back({place_[p], find(static_cast<Point>(p)), place_role});
  return all;
}

void Points::keep_to(const PointsPtr& list, PermutationGroup group, std::vector<PointList> exchangeable,
                     const std::string& reason) {
  const std::vector<std::vector<std::int64_t>> orbits = group.orbits();
  double most = 0.0; // log2 of the order of the group of all permutations that keep the orbits
  for (const std::vector<std::int64_t>& orbit : orbits) most += std::lgamma(static_cast<double>(orbit.size()) + 1.0);
  most /= std::log(2.0);
  const bool apart = most < group.log2_count() + 0.5; // each orbit for itself
  for (const std::vector<std::int64_t>& orbit : orbits) {
    auto points = std::make_shared<PointList>();
    for (const std::int64_t i : orbit) points->push_back((*list)[at(i)]);
    if (orbit.size() == 1) fix(*points, reason);
    if (apart) hold(points, static_cast<std::int64_t>(points->size()));
  }
  if (!apart) kept_.push_back({list, std::move(group), reason, std::move(exchangeable)});
}

void Points::give_up_group(std::size_t kept) {
  const KeptList gone = std::move(kept_[kept]);
  kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(kept));
  for (const PointList& own : gone.exchangeable) {
    if (own.size() == 1) fix(own, gone.reason);
    hold(std::make_shared<PointList>(own), static_cast<std::int64_t>(own.size()));
  }
}

void Points::close(const PointList& list, PermutationGroup group, const std::string& reason) {
  for (const Point p : list) is_closed_[at(p)] = true;
  const std::set<Point> own(list.begin(), list.end());
  std::erase_if(kept_, [&](const KeptList& kept) { // it is part of what was searched
    return std::any_of(kept.list->begin(), kept.list->end(), [&](Point p) { return own.contains(find(p)); });
  });
  for (const std::vector<std::int64_t>& orbit : group.orbits())
    if (orbit.size() == 1) fix({list[at(orbit.front())]}, reason);
  kept_.push_back({std::make_shared<PointList>(list), std::move(group), reason});
}

Point Points::joint(PointList parents, Role slots) {
  const auto [place, is_new] = joints_.try_emplace(std::move(parents), 0, slots);
  Point& own = place->second.first;
  if (is_new) {
    own = allocated(1)->front();
    for (const Point p : place->first) add_parent(own, p, slots++);
  }
  return own;
}

PointsPtr Points::blocks(const PointsPtr& list, std::int64_t width) {
  PointsPtr& known = blocks_[{list, width}];
  if (known != nullptr) return known;
  known = fresh(static_cast<std::int64_t>(list->size()) / width);
  const Role role = new_role();
  for (std::size_t i = 0; i < list->size(); ++i) add_parent((*list)[i], (*known)[i / at(width)], role);
  return known;
}

PointsPtr Points::common(const PointsPtr& list, std::int64_t before, std::int64_t rows) {
  PointsPtr& known = common_[{list, before, rows}];
  if (known != nullptr) return known;
  const std::size_t after = list->size() / at(before * rows);
  known = fresh(before * static_cast<std::int64_t>(after));
  const Columns own{list, known, at(rows), after};
  const Role role = new_role();
  for (std::size_t i = 0; i < list->size(); ++i) add_parent((*list)[i], (*known)[own.column(i)], role);
  columns_.push_back(own);
  return known;
}

void Points::remember_parts(const PointsPtr& list, std::vector<std::int64_t> extents,
                            const std::vector<AxisPoints>& parts) {
  parts_.try_emplace({list, std::move(extents)}, parts);
}

const std::vector<AxisPoints>* Points::parts(const PointsPtr& list, const std::vector<std::int64_t>& extents) const {
  const auto found = parts_.find({list, extents});
  return found == parts_.end() ? nullptr : &found->second;
}

PointsPtr Points::picked(const PointsPtr& list, const std::vector<std::int64_t>& index) {
  std::vector<int> times(list->size(), 0);
  for (const std::int64_t i : index) ++times[at(i)];
  auto result = std::make_shared<PointList>();
  result->reserve(index.size());
  const Role role = new_role();
  for (const std::int64_t i : index) {
    const Point p = (*list)[at(i)];
    result->push_back(times[at(i)] == 1 ? p : allocated(1)->front());
    if (times[at(i)] > 1) add_parent(result->back(), p, role);
  }
  hold(result, static_cast<std::int64_t>(index.size()));
  return result;
}

PointsPtr Points::chained(const std::vector<PointsPtr>& lists, const std::vector<std::size_t>& same) {
  auto all = std::make_shared<PointList>();
  std::set<Point> seen, in_equals; // of lists of one tensor
  for (std::size_t k = 0; k < lists.size(); ++k)
    if (same[k] < k) in_equals.insert(lists[k]->begin(), lists[k]->end());
  std::vector<Role> roles;
  for (std::size_t k = 0; k < lists.size(); ++k) {
    roles.push_back(same[k] < k ? roles[same[k]] : new_role());
    for (const Point p : *lists[k]) {
      const bool stands_alone = !in_equals.contains(p) && seen.insert(p).second;
      all->push_back(stands_alone ? p : allocated(1)->front());
      if (!stands_alone) add_parent(all->back(), p, roles[k]);
    }
  }
  hold(all, static_cast<std::int64_t>(all->size()));
  return all;
}

const std::string* Points::reason(Point p) const {
  const std::int32_t own = reason_[at(find(p))];
  return own < 0 ? nullptr : &reasons_[at(own)];
}

} // namespace eg::permute
