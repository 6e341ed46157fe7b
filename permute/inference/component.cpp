#include "permute/inference/component.h"

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "permute/inference/at.h"
#include "permute/inference/hash.h"
#include "permute/inference/labelled_graph.h"
#include "permute/inference/patterns.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace eg::permute {
namespace {

/// Points that are mapped together to others of the same family.
struct Tuple {
  std::uint64_t family;
  std::vector<std::pair<Point, std::uint64_t>> members; // with their slots, ascending
  friend bool operator<(const Tuple& a, const Tuple& b) {
    return std::tie(a.family, a.members) < std::tie(b.family, b.members);
  }
};

class Search {
public:
  Search(const Points& points, const PointList& some)
      : points_(points), marks_(marks_of_lists(points)), edges_(points.edges()), up_(at(points.count())),
        connected_(at(points.count()), false) {
    std::iota(up_.begin(), up_.end(), Point{0});
    for (const Edge& e : edges_) connect({e.child, e.parent});
    for (const HeldRows& rows : points_.rows())
      if (are_tuples(rows)) connect(members_of(rows));
    for (const Pattern& p : points_.patterns()) connect(members_of(p));
    for (const Point p : some)
      if (moves(points_.find(p))) wanted_.insert(top(points_.find(p)));
  }

  std::vector<PointList> parts_of(const PointList& some) {
    std::map<Point, PointList> by_top;
    for (const Point p : some) by_top[top(points_.find(p))].push_back(p);
    std::vector<PointList> parts;
    for (auto& [p, part] : by_top) parts.push_back(std::move(part));
    return parts;
  }

  std::optional<SearchedComponent> run() {
    PointList own;
    for (std::size_t p = 0; p < up_.size(); ++p)
      if (is_vertex(static_cast<Point>(p)) && wanted_.contains(top(static_cast<Point>(p))))
        own.push_back(static_cast<Point>(p));
    if (own.empty() || own.size() > most || !collect()) return {};
    LabelledGraph graph(own.size() + tuples_.size());
    std::map<Point, std::size_t> number;
    for (std::size_t i = 0; i < own.size(); ++i) {
      number[own[i]] = i;
      graph.colour(i, marks_[at(own[i])]);
    }
    label_edges(graph, number);
    label_tuples(graph, number, own.size());
    try {
      PermutationGroup group = graph.automorphisms(own.size());
      if (group.generators.empty()) return {};
      return SearchedComponent{std::move(own), std::move(group)};
    } catch (const Interrupted&) {
      throw;
    } catch (const ValueError&) { // so regular that the search gives up
      return {};
    }
  }

private:
  static constexpr std::size_t most = 160; // seconds; the time grows with the fourth power

  bool moves(Point p) const { return points_.reason(p) == nullptr; }
  /// It stands for itself, may move, and is in use.
  bool is_vertex(Point p) const {
    return points_.find(p) == p && !points_.is_idle(p) && moves(p) && (marks_[at(p)] != 0 || connected_[at(p)]);
  }

  Point top(Point p) {
    while (up_[at(p)] != p) p = up_[at(p)] = up_[at(up_[at(p)])];
    return p;
  }
  /// What stays connects nothing.
  void connect(const PointList& list) {
    Point first = -1;
    for (const Point p : list) {
      if (!moves(p)) continue;
      if (first < 0) first = p;
      connected_[at(p)] = true;
      up_[at(top(p))] = top(first);
    }
  }
  bool is_wanted(const PointList& list) {
    return std::any_of(list.begin(), list.end(), [&](Point p) { return moves(p) && wanted_.contains(top(p)); });
  }

  static std::size_t count_of(const HeldRows& rows) {
    const std::size_t width = at(rows.width);
    return (rows.list->size() + width - 1) / width;
  }
  /// Rows may change places, or go with the indices that they depend on. One that can do neither is a held list.
  static bool are_tuples(const HeldRows& rows) { return count_of(rows) > 1 || !rows.carriers.empty(); }

  PointList members_of(const HeldRows& rows) const {
    PointList all;
    for (const Point p : *rows.list) all.push_back(points_.vertex(p));
    for (const Point p : rows.carriers) all.push_back(points_.vertex(p));
    return all;
  }
  PointList members_of(const Pattern& pattern) const {
    PointList all;
    for (const PointsPtr& list : reduced(pattern).axes)
      for (const Point p : *list) all.push_back(points_.vertex(p));
    return all;
  }

  /// The tuples of the component; false: too many.
  bool collect() {
    std::uint64_t serial = 0;
    for (const HeldRows& rows : points_.rows()) {
      ++serial;
      if (are_tuples(rows) && is_wanted(members_of(rows))) collect(rows, mixed(serial));
      if (tuples_.size() > most) return false;
    }
    serial = std::uint64_t{1} << 32;
    for (const Pattern& p : points_.patterns()) {
      ++serial;
      if (is_wanted(members_of(p))) collect(reduced(p), mixed(serial));
      if (tuples_.size() > most) return false;
    }
    return true;
  }

  void add(Tuple t) {
    std::sort(t.members.begin(), t.members.end());
    ++tuples_[std::move(t)];
  }

  void collect(const HeldRows& rows, std::uint64_t family) {
    const std::size_t width = at(rows.width), count = count_of(rows), depth = rows.carriers.size() / count;
    for (std::size_t r = 0; r < count; ++r) {
      Tuple t{family, {}};
      for (std::size_t i = r * width; i < std::min(rows.list->size(), (r + 1) * width); ++i)
        t.members.emplace_back(points_.vertex((*rows.list)[i]), 0);
      for (std::size_t k = 0; k < depth; ++k)
        t.members.emplace_back(points_.vertex(rows.carriers[r * depth + k]), k + 1);
      add(std::move(t));
    }
  }

  void collect(const Pattern& p, std::uint64_t family) {
    const std::int64_t usual = most_frequent_kind(p);
    for (std::size_t e = 0; e < p.kinds.size() && tuples_.size() <= most; ++e) {
      if (p.kinds[e] == usual) continue;
      const std::vector<std::int64_t> index = indices_of(p, e);
      Tuple t{family + static_cast<std::uint64_t>(p.kinds[e]), {}};
      for (std::size_t axis = 0; axis < p.axes.size(); ++axis)
        t.members.emplace_back(points_.vertex((*p.axes[axis])[at(index[axis])]), axis);
      add(std::move(t));
    }
  }

  void label_edges(LabelledGraph& graph, const std::map<Point, std::size_t>& number) {
    for (const Edge& e : edges_) {
      const auto child = number.find(e.child), parent = number.find(e.parent);
      const std::uint64_t role = mixed(e.role);
      if (child != number.end() && parent != number.end())
        graph.label(child->second, parent->second, role);
      else if (child != number.end()) // the other one stays
        graph.colour(child->second, role + mixed(2 * static_cast<std::uint64_t>(e.parent)));
      else if (parent != number.end())
        graph.colour(parent->second, role + mixed(2 * static_cast<std::uint64_t>(e.child) + 1));
    }
  }

  void label_tuples(LabelledGraph& graph, const std::map<Point, std::size_t>& number, std::size_t next) {
    for (const auto& [t, times] : tuples_) {
      graph.colour(next, t.family + mixed(times));
      for (const auto& [p, slot] : t.members) {
        if (const auto found = number.find(p); found != number.end())
          graph.label(next, found->second, slot + 1);
        else
          graph.colour(next, mixed(static_cast<std::uint64_t>(p)) + slot); // it stays
      }
      ++next;
    }
  }

  const Points& points_;
  const std::vector<std::uint64_t> marks_;
  const std::vector<Edge> edges_;
  PointList up_; // components
  std::vector<bool> connected_;
  std::set<Point> wanted_;
  std::map<Tuple, std::uint64_t> tuples_; // with the times that each was added
};

} // namespace

std::vector<PointList> connected_parts(const Points& points, const PointList& some) {
  return Search(points, some).parts_of(some);
}

std::optional<SearchedComponent> searched_component(const Points& points, const PointList& some) {
  return Search(points, some).run();
}

} // namespace eg::permute
