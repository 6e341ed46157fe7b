#include "permute/inference/patterns.h"

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "permute/inference/at.h"
#include "permute/inference/hash.h"
#include "permute/inference/labelled_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace eg::permute {
namespace {

/// Indices of equal slices stay among themselves, whatever happens to the other axes.
void hold_slices(Points& points, const Pattern& p, std::size_t axis) {
  std::map<std::vector<std::int64_t>, std::shared_ptr<PointList>> alike;
  std::vector<std::vector<std::int64_t>> all = slices_of(p, axis);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::shared_ptr<PointList>& own = alike[std::move(all[i])];
    if (own == nullptr) own = std::make_shared<PointList>();
    own->push_back((*p.axes[axis])[i]);
  }
  for (const auto& [kinds, own] : alike) {
    if (own->size() == 1) points.fix(*own, p.reason);
    points.hold(own, static_cast<std::int64_t>(own->size()));
  }
}

void hold_slices(Points& points, const Pattern& p) {
  for (std::size_t axis = 0; axis < p.axes.size(); ++axis) hold_slices(points, p, axis);
}

/// Some axis holds a point twice: its places are distinguished elsewhere.
bool repeats_a_point(const Points& points, const Pattern& p) {
  return std::any_of(p.axes.begin(), p.axes.end(), [&](const PointsPtr& list) {
    std::set<Point> roots;
    for (const Point q : *list) roots.insert(points.find(q));
    return roots.size() < list->size();
  });
}

bool holds_same(const Points& points, const PointList& a, const PointList& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](Point x, Point y) { return points.find(x) == points.find(y); });
}

bool is_same(const Points& points, const Pattern& a, const Pattern& b) {
  if (a.kinds != b.kinds || a.axes.size() != b.axes.size()) return false;
  for (std::size_t axis = 0; axis < a.axes.size(); ++axis)
    if (!holds_same(points, *a.axes[axis], *b.axes[axis])) return false;
  return true;
}

/// The last two axes at each index of those before, which stay apart from equal slices.
std::vector<Pattern> layers_of(Points& points, const Pattern& p) {
  const std::size_t leading = p.axes.size() - 2, size = extent_of(p, leading) * extent_of(p, leading + 1);
  for (std::size_t axis = 0; axis < leading; ++axis) hold_slices(points, p, axis);
  std::vector<Pattern> layers;
  for (std::size_t first = 0; first < p.kinds.size(); first += size) {
    const auto begin = p.kinds.begin() + static_cast<std::ptrdiff_t>(first);
    layers.push_back(
        reduced({{p.axes.end() - 2, p.axes.end()}, {begin, begin + static_cast<std::ptrdiff_t>(size)}, p.reason}));
  }
  return layers;
}

/// Patterns that share points.
class Component {
public:
  Component(Points& points, std::vector<Pattern> patterns) : points_(points), patterns_(std::move(patterns)) {}

  void settle() {
    if (is_apart()) return hold_all();
    drop_repetitions();
    if (all_differ()) return points_.fix(roots(), patterns_.front().reason);
    if (is_too_large()) cut_into_layers();
    if (is_too_large()) hold_all_but_masks();
    if (patterns_.empty()) return;
    if (is_too_large()) return hold_all();
    try {
      search();
    } catch (const Interrupted&) {
      throw;
    } catch (const ValueError&) { // so regular that the search gives up
      hold_all();
    }
  }

private:
  bool is_apart() const {
    return std::all_of(patterns_.begin(), patterns_.end(), [](const Pattern& p) { return p.axes.size() < 2; });
  }
  void hold_all() {
    for (const Pattern& p : patterns_) hold_slices(points_, p);
  }

  /// Between two lists the search takes long, since it compares each index of one with each of the other.
  bool is_too_large() const {
    constexpr std::size_t most = 128, most_of_one_list = 2048; // of automorphisms
    const bool one_list = std::all_of(patterns_.begin(), patterns_.end(), [&](const Pattern& p) {
      return p.axes.size() < 3 && std::all_of(p.axes.begin(), p.axes.end(), [&](const PointsPtr& list) {
               return holds_same(points_, *list, *patterns_.front().axes.front());
             });
    });
    return vertices() > (one_list ? most_of_one_list : most);
  }

  /// What stands at each point, in any order, is found at no other point: nothing can move.
  bool all_differ() const {
    const std::vector<std::uint64_t> marks = marks_of_lists(points_);
    std::map<Point, std::uint64_t> sums;
    std::uint64_t serial = 0;
    for (const Pattern& p : patterns_)
      for (std::size_t axis = 0; axis < p.axes.size(); ++axis) {
        const std::size_t stride = stride_of(p, axis), n = extent_of(p, axis);
        const std::uint64_t own = mixed(++serial);
        std::vector<std::uint64_t> sum(n, 0);
        for (std::size_t e = 0; e < p.kinds.size(); ++e)
          sum[e / stride % n] += mixed(own + static_cast<std::uint64_t>(p.kinds[e]));
        for (std::size_t i = 0; i < n; ++i) sums[points_.find((*p.axes[axis])[i])] += sum[i];
      }
    std::set<std::uint64_t> different;
    for (const auto& [p, sum] : sums) different.insert(mixed(sum) + marks[at(p)]);
    return different.size() == sums.size();
  }

  /// Patterns of two axes that are one are left, by the marks that the others leave on it, of one list.
  void hold_all_but_masks() {
    std::vector<Pattern> masks;
    for (Pattern& p : patterns_) {
      const bool is_mask = p.axes.size() == 2 && holds_same(points_, *p.axes[0], *p.axes[1]);
      if (is_mask && (masks.empty() || holds_same(points_, *p.axes[0], *masks.front().axes[0])))
        masks.push_back(std::move(p));
      else
        hold_slices(points_, p);
    }
    patterns_ = std::move(masks);
  }

  void drop_repetitions() {
    std::vector<Pattern> distinct;
    for (Pattern& p : patterns_)
      if (std::none_of(distinct.begin(), distinct.end(), [&](const Pattern& q) { return is_same(points_, p, q); }))
        distinct.push_back(std::move(p));
    patterns_ = std::move(distinct);
  }

  void cut_into_layers() {
    std::vector<Pattern> all;
    for (Pattern& p : patterns_) {
      if (p.axes.size() < 3)
        all.push_back(std::move(p));
      else
        for (Pattern& layer : layers_of(points_, p))
          if (!layer.axes.empty()) all.push_back(std::move(layer));
    }
    patterns_ = std::move(all);
    drop_repetitions();
  }

  PointList roots() const {
    std::set<Point> all;
    for (const Pattern& p : patterns_)
      for (const PointsPtr& list : p.axes)
        for (const Point q : *list) all.insert(points_.find(q));
    return {all.begin(), all.end()};
  }

  /// Points, and an element for each entry of more than two axes.
  std::size_t vertices() const {
    std::size_t count = roots().size();
    for (const Pattern& p : patterns_)
      if (p.axes.size() > 2) {
        const std::int64_t usual = most_frequent_kind(p);
        count += at(std::count_if(p.kinds.begin(), p.kinds.end(), [&](std::int64_t kind) { return kind != usual; }));
      }
    return count;
  }

  void search() {
    const auto list = std::make_shared<PointList>(roots());
    LabelledGraph graph(vertices());
    std::map<Point, std::size_t> number;
    const std::vector<std::uint64_t> marks = marks_of_lists(points_);
    for (std::size_t i = 0; i < list->size(); ++i) {
      const Point p = (*list)[i];
      number[p] = i;
      graph.colour(i, marks[at(p)]);
      if (points_.reason(p) != nullptr) graph.colour(i, i + 1); // it stays
    }
    std::size_t next = list->size();
    for (std::size_t serial = 0; serial < patterns_.size(); ++serial) {
      const Pattern& p = patterns_[serial];
      const std::int64_t usual = most_frequent_kind(p);
      for (std::size_t e = 0; e < p.kinds.size(); ++e) {
        if (p.kinds[e] == usual) continue;
        const std::uint64_t kind = mixed(serial) + static_cast<std::uint64_t>(p.kinds[e]);
        const std::vector<std::int64_t> index = indices_of(p, e);
        const auto vertex = [&](std::size_t axis) { return number.at(points_.find((*p.axes[axis])[at(index[axis])])); };
        if (p.axes.size() == 1) graph.colour(vertex(0), kind);
        if (p.axes.size() == 2) graph.label(vertex(0), vertex(1), kind);
        if (p.axes.size() < 3) continue;
        graph.colour(next, kind);
        for (std::size_t axis = 0; axis < p.axes.size(); ++axis) graph.label(next, vertex(axis), axis + 1);
        ++next;
      }
    }
    keep_to(list, graph);
  }

  void keep_to(const PointsPtr& list, const LabelledGraph& graph) {
    std::vector<PointList> exchangeable;
    for (const std::vector<std::int32_t>& twins : graph.twins()) {
      PointList own;
      for (const std::int32_t v : twins)
        if (at(v) < list->size()) own.push_back((*list)[at(v)]);
      if (!own.empty()) exchangeable.push_back(std::move(own));
    }
    points_.keep_to(list, graph.automorphisms(list->size()), std::move(exchangeable), patterns_.front().reason);
  }

  Points& points_;
  std::vector<Pattern> patterns_;
};

/// Numbers of the patterns that are connected by points that may move.
std::vector<std::vector<std::size_t>> components_of(const Points& points, const std::vector<Pattern>& patterns) {
  std::vector<std::size_t> up(patterns.size());
  std::iota(up.begin(), up.end(), std::size_t{0});
  const auto top = [&](std::size_t i) {
    while (up[i] != i) i = up[i];
    return i;
  };
  std::map<Point, std::size_t> first;
  for (std::size_t i = 0; i < patterns.size(); ++i)
    for (const PointsPtr& list : patterns[i].axes)
      for (const Point p : *list)
        if (points.reason(p) == nullptr) {
          const std::size_t a = top(i), b = top(first.try_emplace(points.find(p), i).first->second);
          up[std::max(a, b)] = std::min(a, b);
        }
  std::vector<std::vector<std::size_t>> lists(patterns.size());
  for (std::size_t i = 0; i < patterns.size(); ++i) lists[top(i)].push_back(i);
  std::erase_if(lists, [](const auto& list) { return list.empty(); });
  return lists;
}

} // namespace

void settle_patterns(Points& points) {
  std::vector<Pattern> open;
  for (const Pattern& p : points.patterns()) {
    Pattern own = reduced(p);
    if (own.axes.empty()) continue;
    if (repeats_a_point(points, own))
      hold_slices(points, own);
    else
      open.push_back(std::move(own));
  }
  for (const std::vector<std::size_t>& numbers : components_of(points, open)) {
    poll_interrupt();
    std::vector<Pattern> list;
    for (const std::size_t i : numbers) list.push_back(std::move(open[i]));
    Component(points, std::move(list)).settle();
  }
}

} // namespace eg::permute
