#include "permute/inference/layout.h"

#include "permute/inference/at.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace eg::permute {
namespace {

std::vector<std::int64_t> extents_of(const Shape& shape, const std::vector<int>& axes) {
  std::vector<std::int64_t> extents;
  extents.reserve(axes.size());
  for (const int axis : axes) extents.push_back(shape[axis]);
  return extents;
}

std::int64_t product(const std::vector<std::int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

/// Row-major numbers from 0 on, as indices.
std::vector<std::int64_t> index_of(std::int64_t number, const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> index(extents.size());
  for (std::size_t i = extents.size(); i-- > 0; number /= extents[i]) index[i] = number % extents[i];
  return index;
}

/// The list [extents of over, n] with its leading axes in another order.
PointsPtr reordered(const AxisPoints& axis, const Shape& shape, const std::vector<int>& order) {
  const std::vector<std::int64_t> from = extents_of(shape, axis.over), to = extents_of(shape, order);
  const std::int64_t rows = product(from);
  const std::size_t n = rows == 0 ? 0 : axis.points->size() / at(rows);
  auto list = std::make_shared<PointList>();
  list->reserve(axis.points->size());
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::vector<std::int64_t> index = index_of(row, to);
    std::int64_t source = 0;
    for (std::size_t i = 0; i < axis.over.size(); ++i) {
      const auto place = std::find(order.begin(), order.end(), axis.over[i]) - order.begin();
      source = source * from[i] + index[at(place)];
    }
    const auto begin = axis.points->begin() + static_cast<std::ptrdiff_t>(at(source) * n);
    list->insert(list->end(), begin, begin + static_cast<std::ptrdiff_t>(n));
  }
  return list;
}

} // namespace

TensorPoints fresh_points(Points& points, const Shape& shape) {
  TensorPoints t;
  for (const std::int64_t extent : shape) t.axes.push_back({points.fresh(extent), {}});
  return t;
}

TensorPoints dependent_points(Points& points, const Shape& shape, const std::vector<std::vector<int>>& over) {
  TensorPoints t{std::vector<AxisPoints>(at(shape.rank()))};
  for (int done = 0; done < shape.rank();)
    for (int axis = 0; axis < shape.rank(); ++axis) {
      AxisPoints& own = t.axes[at(axis)];
      const std::vector<int>& others = over[at(axis)];
      const bool is_next = own.points == nullptr && std::all_of(others.begin(), others.end(), [&](int other) {
                             return t.axes[at(other)].points != nullptr;
                           });
      if (!is_next) continue;
      own.over = others;
      const std::vector<std::int64_t> extents = extents_of(shape, others);
      std::vector<PointList> carriers; // those that carry others are carried by these
      for (std::int64_t row = 0; row < product(extents); ++row) {
        const std::vector<std::int64_t> index = index_of(row, extents);
        PointList& list = carriers.emplace_back();
        for (const int other : others) {
          const auto carries = [&](int further) {
            const std::vector<int>& above = over[at(further)];
            return std::find(above.begin(), above.end(), other) != above.end();
          };
          if (std::any_of(others.begin(), others.end(), carries)) continue;
          const auto along = [&](int a) {
            return index[at(std::find(others.begin(), others.end(), a) - others.begin())];
          };
          std::int64_t place = 0;
          for (const int further : over[at(other)]) place = place * shape[further] + along(further);
          list.push_back((*t.axes[at(other)].points)[at(place * shape[other] + along(other))]);
        }
      }
      own.points = others.empty() ? points.fresh(shape[axis]) : points.below(carriers, shape[axis]);
      ++done;
    }
  return t;
}

AxisPoints over_only(Points& points, const Shape& shape, const AxisPoints& axis, const std::vector<int>& keep) {
  AxisPoints result = axis;
  for (std::size_t i = result.over.size(); i-- > 0;) {
    if (std::find(keep.begin(), keep.end(), result.over[i]) != keep.end()) continue;
    const std::vector<int> outer(result.over.begin(), result.over.begin() + static_cast<std::ptrdiff_t>(i));
    const std::int64_t rows = shape[result.over[i]];
    if (rows > 1) result.points = points.common(result.points, product(extents_of(shape, outer)), rows);
    result.over.erase(result.over.begin() + static_cast<std::ptrdiff_t>(i));
  }
  std::vector<int> order;
  for (const int other : keep)
    if (std::find(result.over.begin(), result.over.end(), other) != result.over.end()) order.push_back(other);
  if (order == result.over) return result;
  return {reordered(result, shape, order), order};
}

PointsPtr independent(Points& points, const Shape& shape, const AxisPoints& axis) {
  return over_only(points, shape, axis, {}).points;
}

AxisPoints renumbered(AxisPoints axis, const std::vector<int>& to) {
  for (int& other : axis.over) other = to[at(other)];
  return axis;
}

TensorPoints transposed(const TensorPoints& t, const std::vector<int>& order) {
  std::vector<int> to(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) to[at(order[i])] = static_cast<int>(i);
  TensorPoints result{{}, t.values, t.constant};
  for (const int axis : order) result.axes.push_back(renumbered(t.axes[at(axis)], to));
  return result;
}

TensorPoints picked(Points& points, const TensorPoints& t, const Shape& shape, int axis,
                    const std::vector<std::int64_t>& index) {
  TensorPoints result = t;
  AxisPoints& own = result.axes[at(axis)];
  own = {points.picked(independent(points, shape, own), index), {}};
  for (AxisPoints& other : result.axes) {
    if (std::find(other.over.begin(), other.over.end(), axis) == other.over.end()) continue;
    // Rows go with the indices: `axis` first, so that they lie together.
    std::vector<int> order{axis};
    for (const int o : other.over)
      if (o != axis) order.push_back(o);
    const PointsPtr rows = reordered(other, shape, order);
    const std::size_t width = rows->size() / at(shape[axis]);
    auto list = std::make_shared<PointList>();
    const Role slots = points.new_slots();
    std::vector<int> times(at(shape[axis]), 0);
    for (const std::int64_t i : index) ++times[at(i)];
    for (std::size_t j = 0; j < index.size(); ++j)
      for (std::size_t k = 0; k < width; ++k) {
        const Point p = (*rows)[at(index[j]) * width + k];
        list->push_back(times[at(index[j])] == 1 ? p : points.joint({(*own.points)[j], p}, slots));
      }
    other = {list, order};
  }
  return result;
}

TensorPoints concatenated(Points& points, const std::vector<TensorPoints>& parts, const std::vector<Shape>& shapes,
                          int axis, std::vector<std::size_t> same) {
  if (same.empty()) {
    same.resize(parts.size());
    std::iota(same.begin(), same.end(), std::size_t{0});
  }
  const bool repeats = !std::is_sorted(same.begin(), same.end(), std::less_equal<>());
  TensorPoints result = parts.front();
  const auto join = [&](const std::vector<PointsPtr>& lists) {
    auto all = std::make_shared<PointList>();
    for (const PointsPtr& list : lists) all->insert(all->end(), list->begin(), list->end());
    return all;
  };
  for (int a = 0; a < static_cast<int>(result.axes.size()); ++a) {
    // Others may depend on the joined axis, which comes first then, where all do; along one index all do.
    bool along = a != axis && !repeats;
    for (std::size_t i = 0; i < parts.size(); ++i)
      along = along && (parts[i].axes[at(a)].over == std::vector<int>{axis} ||
                        (shapes[i][axis] == 1 && parts[i].axes[at(a)].over.empty()));
    const std::vector<int> keep = along ? std::vector<int>{axis} : std::vector<int>{};
    std::vector<PointsPtr> lists;
    for (std::size_t i = 0; i < parts.size(); ++i)
      lists.push_back(over_only(points, shapes[i], parts[i].axes[at(a)], keep).points);
    if (a == axis || along) {
      result.axes[at(a)] = {along ? join(lists) : points.chained(lists, same), keep};
      continue;
    }
    for (const PointsPtr& list : lists) points.unite(lists.front(), list, shapes.front()[a]);
    result.axes[at(a)] = {lists.front(), {}};
  }
  return result;
}

std::vector<AxisMatch> axis_matches(const Shape& from, const Shape& to) {
  std::vector<AxisMatch> all;
  int i = 0, j = 0;
  const auto next = [](const Shape& shape, int& axis) {
    while (axis < shape.rank() && shape[axis] == 1) ++axis;
    return axis < shape.rank();
  };
  while (next(from, i) && next(to, j)) {
    AxisMatch match{{i}, {j}};
    std::int64_t a = from[i++], b = to[j++];
    while (a != b) {
      if (a < b && next(from, i)) {
        a *= from[i];
        match.from.push_back(i++);
      } else if (next(to, j)) {
        b *= to[j];
        match.to.push_back(j++);
      }
    }
    all.push_back(match);
  }
  return all;
}

namespace {

class Reshape {
public:
  Reshape(Points& points, const TensorPoints& t, const Shape& from, const Shape& to)
      : points_(points), t_(t), from_(from), to_(to), matches_(axis_matches(from, to)) {}

  TensorPoints run() {
    TensorPoints result{std::vector<AxisPoints>(at(to_.rank())), t_.values, t_.constant};
    for (int j = 0; j < to_.rank(); ++j)
      if (to_[j] == 1) result.axes[at(j)] = {points_.fresh(1), {}};
    for (const AxisMatch& m : matches_) fill(m, result);
    return result;
  }

private:
  void fill(const AxisMatch& m, TensorPoints& result) {
    if (m.from.size() == 1 && m.to.size() == 1) {
      result.axes[at(m.to[0])] = moved(m.from[0]);
      return;
    }
    const PointsPtr list = m.from.size() == 1 ? independent(points_, from_, t_.axes[at(m.from[0])]) : joined(m.from);
    points_.hold(list, static_cast<std::int64_t>(list->size())); // an axis, even where it is cut again at once
    const std::vector<std::int64_t> extents = extents_of(to_, m.to);
    if (m.to.size() == 1) {
      points_.remember_parts(list, extents_of(from_, m.from), parts_of(m.from));
      result.axes[at(m.to[0])] = {list, {}};
      return;
    }
    if (const auto* parts = points_.parts(list, extents)) {
      for (std::size_t k = 0; k < m.to.size(); ++k) result.axes[at(m.to[k])] = renumbered((*parts)[k], m.to);
      return;
    }
    cut(list, extents, m.to, result);
  }

  void cut(PointsPtr list, const std::vector<std::int64_t>& extents, const std::vector<int>& to, TensorPoints& result) {
    for (std::size_t k = extents.size(); k-- > 0;) {
      result.axes[at(to[k])] = {list, {to.begin(), to.begin() + static_cast<std::ptrdiff_t>(k)}};
      if (k > 0) list = points_.blocks(list, extents[k]);
    }
  }

  /// One point for each index of the axes together.
  PointsPtr joined(const std::vector<int>& axes) {
    PointsPtr list = independent(points_, from_, t_.axes[at(axes[0])]);
    std::vector<int> before{axes[0]};
    for (std::size_t k = 1; k < axes.size(); before.push_back(axes[k++])) {
      const AxisPoints inner = over_only(points_, from_, t_.axes[at(axes[k])], before);
      const std::set<Point> distinct(inner.points->begin(), inner.points->end());
      list = inner.over == before && distinct.size() == inner.points->size() ? inner.points
                                                                             : pairs(list, before, inner, axes[k]);
      points_.hold(list, static_cast<std::int64_t>(list->size())); // rows may be united later: places keep them apart
    }
    return list;
  }

  PointsPtr pairs(const PointsPtr& outer, const std::vector<int>& before, const AxisPoints& inner, int axis) {
    const std::vector<std::int64_t> extents = extents_of(from_, before);
    const std::int64_t n = from_[axis];
    const Role slots = points_.new_slots();
    auto list = std::make_shared<PointList>();
    for (std::size_t i = 0; i < outer->size(); ++i) {
      const std::vector<std::int64_t> index = index_of(static_cast<std::int64_t>(i), extents);
      std::int64_t row = 0;
      for (const int other : inner.over) {
        const auto place = std::find(before.begin(), before.end(), other) - before.begin();
        row = row * from_[other] + index[at(place)];
      }
      for (std::int64_t j = 0; j < n; ++j)
        list->push_back(points_.joint({(*outer)[i], (*inner.points)[at(row * n + j)]}, slots));
    }
    return list;
  }

  /// The joined axes as they were, `over` counted among them.
  std::vector<AxisPoints> parts_of(const std::vector<int>& axes) {
    std::vector<AxisPoints> parts;
    parts.reserve(axes.size());
    std::vector<int> place(at(from_.rank()), -1);
    for (std::size_t k = 0; k < axes.size(); ++k) place[at(axes[k])] = static_cast<int>(k);
    for (const int axis : axes) parts.push_back(renumbered(over_only(points_, from_, t_.axes[at(axis)], axes), place));
    return parts;
  }

  /// An axis that stays as it is, while those that it depends on may be joined or cut.
  AxisPoints moved(int axis) {
    std::vector<int> keep, over;
    bool joins = false;
    for (const int other : t_.axes[at(axis)].over) {
      const AxisMatch* m = match_of(other);
      if (m == nullptr || (m->from.size() > 1 && m->to.size() > 1)) continue; // of extent 1, or regrouped
      keep.push_back(other);
      joins = joins || m->from.size() > 1;
      if (std::find(over.begin(), over.end(), m->to[0]) == over.end())
        over.insert(over.end(), m->to.begin(), m->to.end());
    }
    const AxisPoints kept = over_only(points_, from_, t_.axes[at(axis)], keep);
    return {joins ? spread(kept, over, from_[axis]) : kept.points, over};
  }

  /// Rows repeated for all indices of the joined axes that they do not depend on.
  PointsPtr spread(const AxisPoints& axis, const std::vector<int>& over, std::int64_t n) {
    const std::vector<std::int64_t> extents = extents_of(to_, over);
    auto list = std::make_shared<PointList>();
    for (std::int64_t row = 0; row < product(extents); ++row) {
      const std::vector<std::int64_t> index = index_of(row, extents);
      std::int64_t source = 0;
      for (const int other : axis.over) source = source * from_[other] + index_along(other, over, index);
      for (std::int64_t j = 0; j < n; ++j) list->push_back((*axis.points)[at(source * n + j)]);
    }
    return list;
  }

  /// The index along axis `other` of the input, given those along the output's axes `over`.
  std::int64_t index_along(int other, const std::vector<int>& over, const std::vector<std::int64_t>& index) {
    const AxisMatch& m = *match_of(other);
    std::int64_t number = 0;
    for (const int j : m.to)
      number = number * to_[j] + index[at(std::find(over.begin(), over.end(), j) - over.begin())];
    const auto place = std::find(m.from.begin(), m.from.end(), other) - m.from.begin();
    return index_of(number, extents_of(from_, m.from))[at(place)];
  }

  const AxisMatch* match_of(int axis) const {
    for (const AxisMatch& m : matches_)
      if (std::find(m.from.begin(), m.from.end(), axis) != m.from.end()) return &m;
    return nullptr;
  }

  Points& points_;
  const TensorPoints& t_;
  const Shape &from_, &to_;
  std::vector<AxisMatch> matches_;
};

} // namespace

TensorPoints reshaped(Points& points, const TensorPoints& t, const Shape& from, const Shape& to) {
  if (from.numel() == 0) {
    TensorPoints result = fresh_points(points, to);
    result.values = t.values;
    return result;
  }
  return Reshape(points, t, from, to).run();
}

} // namespace eg::permute
