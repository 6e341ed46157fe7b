#include "permute/inference/structure.h"

#include "core/base/error.h"
#include "permute/inference/at.h"
#include "permute/inference/component.h"
#include "permute/inference/hash.h"
#include "permute/inference/invariants.h"
#include "permute/inference/patterns.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <unordered_map>

namespace eg::permute {
namespace {

using Colour = std::uint64_t;

template <class T> void sort_unique(std::vector<T>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

/// Counts the colours of points.
class ColourCount {
public:
  explicit ColourCount(std::size_t points) : mask_(std::bit_ceil(2 * points + 1) - 1) {}
  std::size_t operator()(const std::vector<Colour>& colour, const PointList& list) {
    seen_.assign(mask_ + 1, 0);
    std::size_t count = 0;
    for (const Point p : list) {
      const Colour own = std::max(colour[at(p)], Colour{1}); // 0 is an empty place
      std::size_t i = own & mask_;
      while (seen_[i] != 0 && seen_[i] != own) i = (i + 1) & mask_;
      count += seen_[i] == 0 ? 1 : 0;
      seen_[i] = own;
    }
    return count;
  }

private:
  std::size_t mask_;
  std::vector<Colour> seen_; // open addressing
};

} // namespace

/// Parents and children between the points that stand for others.
struct Structure::Graph {
  std::vector<Links> parents, children;

  explicit Graph(const Points& points) : parents(at(points.count())), children(at(points.count())) {
    std::vector<Edge> edges = points.edges();
    std::erase_if(edges, [&](const Edge& e) { return points.is_closed(e.child) || points.is_closed(e.parent); });
    std::vector<std::uint32_t> up(parents.size(), 0), down(parents.size(), 0);
    for (const Edge& e : edges) {
      ++up[at(e.child)];
      ++down[at(e.parent)];
    }
    for (std::size_t p = 0; p < parents.size(); ++p) {
      parents[p].reserve(up[p]);
      children[p].reserve(down[p]);
    }
    for (const Edge& e : edges) parents[at(e.child)].push_back({e.parent, e.role});
    turn();
  }

  /// Lists without repetition, children from parents.
  void turn() {
    for (Links& list : children) list.clear();
    for (std::size_t c = 0; c < parents.size(); ++c) {
      if (parents[c].size() > 1) sort_unique(parents[c]);
      for (const Link& up : parents[c]) children[at(up.point)].push_back({static_cast<Point>(c), up.role});
    }
  }

  /// Parents of the same children are the same thing. True when some were united.
  bool unite_equals(Points& points) const {
    std::map<PointList, Point> first;
    bool any = false;
    for (std::size_t p = 0; p < children.size(); ++p) {
      if (points.is_place(static_cast<Point>(p)) || points.reason(static_cast<Point>(p)) != nullptr) continue;
      PointList own; // places go with their points, which are there
      for (const Link& down : children[p])
        if (!points.is_place(down.point)) own.push_back(down.point);
      if (own.empty()) continue;
      sort_unique(own);
      const auto [place, is_new] = first.try_emplace(std::move(own), static_cast<Point>(p));
      if (is_new) continue;
      points.merge(place->second, static_cast<Point>(p));
      any = true;
    }
    return any;
  }

  /// A parent that all children of p have is a parent of p, and of the children through p.
  void nest(const Points& points) {
    for (std::size_t p = 0; p < children.size(); ++p) {
      if (children[p].size() < 2 || points.is_place(static_cast<Point>(p))) continue;
      const Links above = shared_parents(points, static_cast<Point>(p));
      if (above.empty()) continue;
      const Links below = children[p]; // as they are now: those of points before p may have changed
      for (const Link& c : below)
        for (const Link& up : above) remove(c.point, up);
      for (const Link& up : above) add(static_cast<Point>(p), up);
    }
    turn();
  }

private:
  /// Parents that all children of p have beside p.
  Links shared_parents(const Points& points, Point p) const {
    Links common = parents[at(children[at(p)].front().point)];
    std::erase_if(common, [&](const Link& up) { return up.point == p || points.is_place(up.point); });
    for (const Link& c : children[at(p)]) {
      if (common.empty()) break;
      Links both;
      std::set_intersection(common.begin(), common.end(), parents[at(c.point)].begin(), parents[at(c.point)].end(),
                            std::back_inserter(both));
      common = std::move(both);
    }
    return common;
  }

  void remove(Point child, const Link& up) {
    std::erase(parents[at(child)], up);
    std::erase(children[at(up.point)], Link{child, up.role});
  }
  void add(Point child, const Link& up) {
    Links& above = parents[at(child)];
    const auto place = std::lower_bound(above.begin(), above.end(), up);
    if (place != above.end() && *place == up) return;
    above.insert(place, up);
    children[at(up.point)].push_back({child, up.role});
  }
};

namespace {

/// Points by the lists that hold them; fixed ones each for itself.
std::vector<Colour> first_colours(const Points& points) {
  std::vector<Colour> colour = marks_of_lists(points);
  for (std::size_t p = 0; p < colour.size(); ++p)
    if (points.reason(static_cast<Point>(p)) != nullptr && points.find(static_cast<Point>(p)) == static_cast<Point>(p))
      colour[p] = mixed(~Colour{0} - p);
  return colour;
}

/// These points by what they are in, until each colour says how many of which colour are its parents and its children.
std::vector<Colour> refined(std::vector<Colour> colour, const PointList& list, const std::vector<Links>& parents,
                            const std::vector<Links>& children) {
  std::vector<Colour> next = colour;
  ColourCount distinct(list.size());
  for (std::size_t count = distinct(colour, list), before = 0; count != before;) {
    before = count;
    for (const Point point : list) {
      const std::size_t p = at(point);
      Colour sum = mixed(colour[p]);
      for (const Link& q : parents[p]) sum += mixed(colour[at(q.point)] ^ mixed(2 * Colour{q.role}));
      for (const Link& q : children[p]) sum += mixed(colour[at(q.point)] ^ mixed(2 * Colour{q.role} + 1));
      next[p] = mixed(sum);
    }
    colour.swap(next);
    count = distinct(colour, list);
  }
  return colour;
}

/// Points in an order in which parents come before their children; shorter than all when there is a circle.
PointList from_above(const std::vector<Links>& parents, const std::vector<Links>& children) {
  std::vector<std::size_t> waiting(parents.size());
  PointList order;
  for (std::size_t p = 0; p < parents.size(); ++p)
    if ((waiting[p] = parents[p].size()) == 0) order.push_back(static_cast<Point>(p));
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const Link& c : children[at(order[i])])
      if (--waiting[at(c.point)] == 0) order.push_back(c.point);
  return order;
}

/// Indices that some element moves, ascending.
std::vector<std::int64_t> moved_by(const PermutationGroup& group) {
  std::vector<std::int64_t> moved;
  for (const std::vector<std::int64_t>& orbit : group.orbits())
    if (orbit.size() > 1) moved.insert(moved.end(), orbit.begin(), orbit.end());
  std::sort(moved.begin(), moved.end());
  return moved;
}

/// One colour for all points that a mask's group moves, in whatever orbits: its elements move them together. Where
/// something else carries some of them they keep their colours.
void bind_together(std::vector<Colour>& colour, const Points& points, const std::vector<Links>& parents) {
  Colour serial = 0;
  for (const KeptList& kept : points.kept()) {
    const Colour own = mixed(mixed(~serial++));
    const std::vector<std::int64_t> moved = moved_by(kept.group);
    const bool apart = std::all_of(moved.begin(), moved.end(), [&](std::int64_t i) {
      const Point p = points.find((*kept.list)[at(i)]);
      return parents[at(p)].empty() && points.reason(p) == nullptr;
    });
    if (!apart) continue;
    for (const std::int64_t i : moved) colour[at(points.find((*kept.list)[at(i)]))] = own;
  }
}

/// A group as one on the places in `cell` of the points `members` that it moves: those at the indices `moved`.
PermutationGroup relabelled(const PermutationGroup& group, const std::vector<std::int64_t>& moved,
                            const PointList& members, const PointList& cell) {
  std::map<Point, std::int64_t> place;
  for (std::size_t a = 0; a < cell.size(); ++a) place[cell[a]] = static_cast<std::int64_t>(a);
  std::map<std::int64_t, std::int64_t> number; // of the group's point, in the cell
  for (std::size_t i = 0; i < moved.size(); ++i) number[moved[i]] = place.at(members[i]);
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
  while (!describe(points)) {
  } // each time something is fixed, or two points become one
}

bool Structure::describe(Points& points) {
  points.part_places();
  Graph graph(points);
  if (graph.unite_equals(points)) return false;
  graph.nest(points);
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
    if (search(points, circle)) return false;
    for (const PointList& part : connected_parts(points, circle))
      if (!search(points, part)) points.drop_parents(part, "axes are parts of each other");
    return false;
  }

  PointList used = order;
  std::erase_if(used, [&](Point p) { return root_[at(p)] != p || points.is_idle(p); });
  std::vector<Colour> colour = refined(first_colours(points), used, graph.parents, graph.children);
  bind_together(colour, points, graph.parents);
  above_ = std::move(graph.parents);
  below_ = std::move(graph.children);
  classes_.clear();
  cells_ = HashIndex(used.size());
  class_.assign(n, 0);
  cell_.assign(n, 0);
  std::unordered_map<Colour, std::size_t> number;
  Colour last = 0;
  std::size_t of_last = 0;
  for (const Point p : used) { // points of one list often stand side by side
    const Colour own = colour[at(p)];
    if (p == used.front() || own != last) of_last = number.try_emplace(own, classes_.size()).first->second;
    last = own;
    add_to_class(points, p, of_last);
  }
  return settle(points);
}

void Structure::add_to_class(const Points& points, Point p, std::size_t number) {
  const Links& above = above_[at(p)];
  class_[at(p)] = static_cast<std::uint32_t>(number);
  if (number == classes_.size()) {
    classes_.emplace_back();
    PointList distinct_parents;
    for (const Link& up : above) distinct_parents.push_back(up.point);
    sort_unique(distinct_parents);
    for (const Point q : distinct_parents) classes_.back().over.push_back(class_[at(q)]);
    std::sort(classes_.back().over.begin(), classes_.back().over.end());
    classes_.back().places = points.is_place(p) && !points.is_closed(p);
  }
  PointClass& own = classes_[number];
  if (!own.cells.empty() && above_[at(own.cells.back().front())] == above) { // in the cell of the point before it
    cell_[at(p)] = static_cast<std::uint32_t>(own.cells.size() - 1);
    own.cells.back().push_back(p);
    return;
  }
  std::uint64_t hash = hash_of(number);
  for (const Link& up : above) hash += hash_of(up);
  const auto found = cells_.find(hash, [&](std::size_t q) { return class_[q] == number && above_[q] == above; });
  if (!found) {
    cells_.add(hash, at(p));
    own.cells.emplace_back();
  }
  cell_[at(p)] = found ? cell_[*found] : static_cast<std::uint32_t>(own.cells.size() - 1);
  own.cells[cell_[at(p)]].push_back(p);
}

/// The group of all that is connected with these points is searched. False: it cannot be, or was.
bool Structure::search(Points& points, const PointList& some) {
  if (std::any_of(some.begin(), some.end(), [&](Point p) { return points.is_closed(points.find(p)); })) return false;
  std::optional<SearchedComponent> found = searched_component(points, some);
  if (!found) return false;
  points.close(found->points, std::move(found->group), "each of its places is used in another way");
  return true;
}

bool Structure::settle(Points& points) {
  const auto give_up = [&](std::size_t k, const std::string& reason) {
    if (search(points, classes_[k].cells.front())) return false;
    for (const PointList& cell : classes_[k].cells) points.fix(cell, reason);
    return false;
  };
  for (std::size_t k = 0; k < classes_.size(); ++k)
    for (const PointList& cell : classes_[k].cells)
      if (cell.size() != classes_[k].cells.front().size() || (classes_[k].places && cell.size() > 1))
        return give_up(k, "an axis is cut in two ways that do not fit into each other");
  for (std::size_t i = 0; i < points.kept().size(); ++i)
    if (!take_group(points.kept()[i])) {
      const KeptList kept = points.kept()[i];
      if (!search(points, *kept.list)) points.give_up_group(i);
      return false;
    }
  Invariants invariants(points);
  PointMap image(root_.size());
  std::iota(image.begin(), image.end(), Point{0});
  for (std::size_t k = 0; k < classes_.size(); ++k)
    if (!holds(k, invariants, image)) return give_up(k, "its indices move with others in a way that is not described");
  return true;
}

/// A group that is not that of all permutations: of the points of one class (bind_together) that nothing carries
/// along. False: they are not.
bool Structure::take_group(const KeptList& kept) {
  const PermutationGroup& group = kept.group;
  const std::vector<std::int64_t> moved = moved_by(group);
  const bool stands_still = std::all_of(moved.begin(), moved.end(), [&](std::int64_t i) {
    const PointClass& own = classes_[class_of((*kept.list)[at(i)])];
    return own.size() == 1 && own.copies() == 1;
  });
  if (stands_still) return true; // fixed before
  const std::size_t k = class_of((*kept.list)[at(moved.front())]);
  PointList members;
  for (const std::int64_t i : moved) members.push_back(root_[at((*kept.list)[at(i)])]);
  PointList sorted = members;
  sort_unique(sorted);
  if (!classes_[k].over.empty() || sorted != classes_[k].cells.front() || sorted.size() != members.size()) return false;
  PermutationGroup own = relabelled(group, moved, members, classes_[k].cells.front());
  if (classes_[k].group && classes_[k].group->generators != own.generators) return false;
  classes_[k].group = std::move(own);
  return true;
}

std::size_t Structure::class_of(Point p) const { return class_[at(root_[at(p)])]; }

} // namespace eg::permute
