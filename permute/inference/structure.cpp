#include "permute/inference/structure.h"

#include "core/base/error.h"
#include "permute/inference/at.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

namespace eg::permute {
namespace {

using Colour = std::uint64_t;

/// A number that looks random (the finaliser of splitmix64, Steele et al., OOPSLA 2014).
Colour mixed(Colour x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

void sort_unique(PointList& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

std::size_t distinct(std::vector<Colour> colours) {
  std::sort(colours.begin(), colours.end());
  return at(std::unique(colours.begin(), colours.end()) - colours.begin());
}

} // namespace

/// Parents and children between the points that stand for others.
struct Structure::Graph {
  std::vector<PointList> parents, children;

  explicit Graph(const Points& points) : parents(at(points.count())), children(at(points.count())) {
    for (const auto& [child, parent] : points.parents()) {
      const Point c = points.find(child), p = points.find(parent);
      if (c != p) parents[at(c)].push_back(p);
    }
    turn();
  }

  /// Lists without repetition, children from parents.
  void turn() {
    for (PointList& list : children) list.clear();
    for (std::size_t c = 0; c < parents.size(); ++c) {
      sort_unique(parents[c]);
      for (const Point p : parents[c]) children[at(p)].push_back(static_cast<Point>(c));
    }
  }

  /// Parents of the same children are the same thing. True when some were united.
  bool unite_equals(Points& points) const {
    std::map<PointList, Point> first;
    bool any = false;
    for (std::size_t p = 0; p < children.size(); ++p) {
      if (children[p].empty()) continue;
      const auto [place, is_new] = first.try_emplace(children[p], static_cast<Point>(p));
      if (is_new) continue;
      points.unite({place->second}, {static_cast<Point>(p)});
      any = true;
    }
    return any;
  }

  /// A parent that all children of p have is a parent of p, and of the children through p.
  void nest() {
    for (std::size_t p = 0; p < children.size(); ++p) {
      if (children[p].size() < 2) continue;
      PointList common = parents[at(children[p].front())];
      for (const Point c : children[p]) {
        PointList both;
        std::set_intersection(common.begin(), common.end(), parents[at(c)].begin(), parents[at(c)].end(),
                              std::back_inserter(both));
        common = std::move(both);
        if (common.size() == 1) break; // p itself
      }
      std::erase(common, static_cast<Point>(p));
      if (common.empty()) continue;
      for (const Point c : children[p])
        std::erase_if(parents[at(c)], [&](Point q) { return std::binary_search(common.begin(), common.end(), q); });
      parents[p].insert(parents[p].end(), common.begin(), common.end());
      sort_unique(parents[p]);
    }
    turn();
  }
};

namespace {

/// Points by what they are in, until each colour says how many of which colour are its parents and its children.
std::vector<Colour> refined(const Points& points, const std::vector<PointList>& parents,
                            const std::vector<PointList>& children) {
  const std::size_t n = parents.size();
  std::vector<Colour> colour(n, 0);
  Colour serial = 1;
  for (const PointsPtr& list : points.held()) {
    const Colour own = mixed(serial++);
    for (const Point p : *list) colour[at(points.find(p))] += own;
  }
  for (std::size_t p = 0; p < n; ++p)
    if (points.reason(static_cast<Point>(p)) != nullptr && points.find(static_cast<Point>(p)) == static_cast<Point>(p))
      colour[p] = mixed(~Colour{0} - p);
  for (std::size_t count = 0, before = 1; count != before;) {
    before = distinct(colour);
    std::vector<Colour> next(n);
    for (std::size_t p = 0; p < n; ++p) {
      Colour sum = mixed(colour[p]);
      for (const Point q : parents[p]) sum += mixed(colour[at(q)] ^ 0x5555);
      for (const Point q : children[p]) sum += mixed(colour[at(q)] ^ 0xaaaa0000);
      next[p] = mixed(sum);
    }
    colour = std::move(next);
    count = distinct(colour);
  }
  return colour;
}

/// Points in an order in which parents come before their children; shorter than all when there is a circle.
PointList from_above(const std::vector<PointList>& parents, const std::vector<PointList>& children) {
  std::vector<std::size_t> waiting(parents.size());
  PointList order;
  for (std::size_t p = 0; p < parents.size(); ++p)
    if ((waiting[p] = parents[p].size()) == 0) order.push_back(static_cast<Point>(p));
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const Point c : children[at(order[i])])
      if (--waiting[at(c)] == 0) order.push_back(c);
  return order;
}

/// A group on its one orbit, whose members are the points `members`, as a group on the places of these in `cell`.
PermutationGroup relabelled(const PermutationGroup& group, const std::vector<std::int64_t>& orbit,
                            const PointList& members, const PointList& cell) {
  std::map<Point, std::int64_t> place;
  for (std::size_t a = 0; a < cell.size(); ++a) place[cell[a]] = static_cast<std::int64_t>(a);
  std::map<std::int64_t, std::int64_t> number; // of the group's point, in the cell
  for (std::size_t i = 0; i < orbit.size(); ++i) number[orbit[i]] = place.at(members[i]);
  PermutationGroup result{static_cast<std::int64_t>(cell.size()), {}, group.factors};
  for (const Permutation& g : group.generators) {
    std::vector<std::int64_t> own(cell.size());
    for (const auto& [i, a] : number) own[at(a)] = number.at(g[i]);
    result.generators.emplace_back(std::move(own));
  }
  return result;
}

} // namespace

Structure::Structure(Points& points) {
  constexpr int attempts = 64; // each fixes something that could not be described
  for (int i = 0; i < attempts; ++i)
    if (describe(points)) return;
  throw ValueError("symmetries: the axes of this model are cut in ways that have no simple description");
}

namespace {

/// Points that stand twice in one row of an axis, of which an operation saw some in another order (those in the same
/// order go to each other in order); and pairs (a, b) and (b, a) of joined axes that hold the same points: what moves
/// them says too little of where they go.
PointList ambiguous(const Points& points) {
  std::vector<bool> shuffled(at(points.count()), false);
  for (const PointsPtr& list : points.shuffled())
    for (const Point p : *list) shuffled[at(points.find(p))] = true;
  PointList found;
  std::vector<std::size_t> row_of(at(points.count()), 0);
  std::size_t row = 0;
  for (const auto& [list, width] : points.rows())
    for (std::size_t i = 0; i < list->size(); ++i) {
      if (i % at(width) == 0) ++row;
      const Point p = points.find((*list)[i]);
      if (row_of[at(p)] == row && shuffled[at(p)]) found.push_back(p);
      row_of[at(p)] = row;
    }
  std::map<PointList, std::pair<PointList, Point>> first; // by parents in order of number
  for (auto [tuple, point] : points.joined()) {
    for (Point& p : tuple) p = points.find(p);
    PointList sorted = tuple;
    std::sort(sorted.begin(), sorted.end());
    const auto [place, is_new] = first.try_emplace(std::move(sorted), tuple, point);
    if (!is_new && place->second.first != tuple) found.insert(found.end(), {point, place->second.second});
  }
  return found;
}

} // namespace

bool Structure::describe(Points& points) {
  points.fix(ambiguous(points), "an axis is added to itself in another order, or joined with itself");
  Graph graph(points);
  while (graph.unite_equals(points)) graph = Graph(points);
  graph.nest();
  const std::size_t n = at(points.count());
  root_.resize(n);
  for (std::size_t p = 0; p < n; ++p) root_[p] = points.find(static_cast<Point>(p));

  const PointList order = from_above(graph.parents, graph.children);
  if (order.size() < n) {
    std::vector<bool> done(n, false);
    for (const Point p : order) done[at(p)] = true;
    PointList circle;
    for (std::size_t p = 0; p < n; ++p)
      if (!done[p]) circle.push_back(static_cast<Point>(p));
    points.drop_parents(circle, "axes are parts of each other");
    return false;
  }

  const std::vector<Colour> colour = refined(points, graph.parents, graph.children);
  classes_.clear();
  parents_.clear();
  cells_.clear();
  class_.assign(n, 0);
  std::unordered_map<Colour, std::size_t> number;
  for (const Point p : order) {
    if (root_[at(p)] != p) continue;
    const auto [place, is_new] = number.try_emplace(colour[at(p)], classes_.size());
    class_[at(p)] = place->second;
    if (is_new) {
      classes_.emplace_back();
      parents_.emplace_back();
      cells_.emplace_back();
      for (const Point q : graph.parents[at(p)]) classes_.back().over.push_back(class_[at(q)]);
      std::sort(classes_.back().over.begin(), classes_.back().over.end());
    }
    PointClass& own = classes_[place->second];
    PointList above = graph.parents[at(p)];
    std::sort(above.begin(), above.end(), [&](Point a, Point b) {
      return std::pair{class_[at(a)], a} < std::pair{class_[at(b)], b};
    });
    const auto [cell, fresh] = cells_[place->second].try_emplace(above, own.cells.size());
    if (fresh) {
      own.cells.emplace_back();
      parents_[place->second].push_back(above);
    }
    own.cells[cell->second].push_back(p);
  }
  above_ = std::move(graph.parents);
  below_ = std::move(graph.children);
  return settle(points);
}

bool Structure::settle(Points& points) {
  const auto give_up = [&](std::size_t k) {
    for (const PointList& cell : classes_[k].cells)
      points.fix(cell, "an axis is cut in two ways that do not fit into each other");
    return false;
  };
  for (std::size_t k = 0; k < classes_.size(); ++k)
    for (const PointList& cell : classes_[k].cells)
      if (cell.size() != classes_[k].cells.front().size()) return give_up(k);
  for (const auto& [list, group] : points.kept())
    if (!take_group(points, list, group)) return false;
  constexpr std::uint64_t draws = 3;
  for (std::uint64_t draw = 0; draw < draws; ++draw) {
    RandomKey key{draw, 20240917};
    const auto random = [&](std::size_t k, std::size_t c) -> std::optional<Permutation> {
      if (classes_[k].size() < 2) return {};
      const RandomKey own = key.fold(k).fold(c);
      return classes_[k].group ? random_element(*classes_[k].group, own) : Permutation::random(classes_[k].size(), own);
    };
    if (const auto torn = tried(random).second) return give_up(*torn);
  }
  return true;
}

/// A group that is not that of all permutations: of the points of one class that nothing carries along. Otherwise the
/// points stay.
bool Structure::take_group(Points& points, const PointsPtr& list, const PermutationGroup& group) {
  std::vector<std::vector<std::int64_t>> moved = group.orbits();
  std::erase_if(moved, [](const auto& orbit) { return orbit.size() < 2; });
  const auto stands_still = [&](const std::vector<std::int64_t>& orbit) {
    return std::all_of(orbit.begin(), orbit.end(), [&](std::int64_t i) {
      const PointClass& own = classes_[class_of((*list)[at(i)])];
      return own.size() == 1 && own.copies() == 1;
    });
  };
  if (std::all_of(moved.begin(), moved.end(), stands_still)) return true; // fixed before
  const std::size_t k = class_of((*list)[at(moved.front().front())]);
  PointList orbit;
  for (const std::int64_t i : moved.front()) orbit.push_back(root_[at((*list)[at(i)])]);
  PointList sorted = orbit;
  sort_unique(sorted);
  if (moved.size() != 1 || !classes_[k].over.empty() || sorted != classes_[k].cells.front() ||
      (classes_[k].group && classes_[k].group->generators != group.generators)) {
    points.fix(*list, "several masks, or a mask of parts of an axis");
    return false;
  }
  classes_[k].group = relabelled(group, moved.front(), orbit, classes_[k].cells.front());
  return true;
}

std::size_t Structure::class_of(Point p) const { return class_[at(root_[at(p)])]; }

} // namespace eg::permute
