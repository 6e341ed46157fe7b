// Elements of the group, and maps that are to be tried whether they are.

#include "core/base/error.h"
#include "permute/inference/at.h"
#include "permute/inference/structure.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace eg::permute {
namespace {

double log2_factorial(std::int64_t n) { return std::lgamma(static_cast<double>(n) + 1.0) / std::log(2.0); }

} // namespace

double PointClass::log2_count() const {
  return group ? group->log2_count() : static_cast<double>(copies()) * log2_factorial(size());
}

std::pair<PointMap, std::optional<std::size_t>>
Structure::tried(const std::function<std::optional<Permutation>(std::size_t, std::size_t)>& permutation) const {
  PointMap image(root_.size());
  std::iota(image.begin(), image.end(), Point{0});
  for (std::size_t k = 0; k < classes_.size(); ++k)
    for (std::size_t c = 0; c < classes_[k].cells.size(); ++c) {
      PointList above = parents_[k][c];
      for (Point& p : above) p = image[at(p)];
      std::sort(above.begin(), above.end(), [&](Point a, Point b) {
        return std::pair{class_[at(a)], a} < std::pair{class_[at(b)], b};
      });
      const auto target = cells_[k].find(above);
      if (target == cells_[k].end()) return {std::move(image), k};
      const std::optional<Permutation> p = permutation(k, c);
      const PointList &from = classes_[k].cells[target->second], &to = classes_[k].cells[c];
      for (std::size_t i = 0; i < to.size(); ++i)
        image[at(to[i])] = from[p ? at((*p)[static_cast<std::int64_t>(i)]) : i];
    }
  return {std::move(image), std::nullopt};
}

PointMap
Structure::element(const std::function<std::optional<Permutation>(std::size_t, std::size_t)>& permutation) const {
  auto [image, torn] = tried(permutation);
  if (torn) throw Error("symmetries: a permutation does not fit the group");
  return std::move(image);
}

namespace {

/// The points and all above them, children before parents.
PointList with_all_above(PointList list, const std::vector<PointList>& above) {
  std::vector<bool> seen(above.size(), false);
  for (const Point p : list) seen[at(p)] = true;
  for (std::size_t i = 0; i < list.size(); ++i)
    for (const Point q : above[at(list[i])])
      if (!seen[at(q)]) {
        seen[at(q)] = true;
        list.push_back(q);
      }
  return list;
}

} // namespace

PointList Structure::related(const PointList& list) const {
  return with_all_above(with_all_above(list, above_), below_);
}

double Structure::log2_count_of(const PointList& list) const {
  PointList roots;
  for (const Point p : list) roots.push_back(root_[at(p)]);
  std::sort(roots.begin(), roots.end());
  roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
  std::vector<bool> concerned(root_.size(), false);
  for (const Point p : with_all_above(roots, above_)) concerned[at(p)] = true;
  double sum = 0.0;
  for (const PointClass& c : classes_)
    for (const PointList& cell : c.cells) {
      const auto moved = std::count_if(cell.begin(), cell.end(), [&](Point p) { return concerned[at(p)]; });
      if (moved > 0) sum += c.group ? c.group->log2_count() : log2_factorial(moved);
    }
  return sum;
}

std::optional<PointMap> Structure::carried(const PointList& from, const PointList& to,
                                           const std::vector<bool>& held) const {
  PointMap image(root_.size());
  std::iota(image.begin(), image.end(), Point{0});
  std::vector<bool> given(root_.size(), false), torn(root_.size(), false);
  PointList list;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Point p = root_[at(from[i])];
    image[at(p)] = root_[at(to[i])];
    if (!given[at(p)]) list.push_back(p);
    given[at(p)] = true;
  }
  // Upwards: a block goes where all its given members go.
  const PointList upwards = with_all_above(list, above_);
  for (std::size_t i = list.size(); i < upwards.size(); ++i) {
    const Point block = upwards[i];
    std::optional<Point> target;
    for (const Point member : below_[at(block)]) {
      if (!given[at(member)]) continue;
      for (const Point q : above_[at(image[at(member)])])
        if (class_[at(q)] == class_[at(block)]) {
          if (target && *target != q) torn[at(block)] = true;
          target = q;
        }
      if (torn[at(member)] || !target) torn[at(block)] = true;
    }
    if (torn[at(block)] && held[at(block)]) return {};
    if (target && !torn[at(block)]) image[at(block)] = *target;
    given[at(block)] = true;
  }
  // Downwards: what is below follows in order.
  for (std::size_t k = 0; k < classes_.size(); ++k)
    for (std::size_t c = 0; c < classes_[k].cells.size(); ++c) {
      const PointList& cell = classes_[k].cells[c];
      PointList above = parents_[k][c];
      const bool moves = std::any_of(above.begin(), above.end(), [&](Point p) { return image[at(p)] != p; });
      if (!moves || given[at(cell.front())]) continue;
      for (Point& p : above) p = image[at(p)];
      std::sort(above.begin(), above.end(), [&](Point a, Point b) {
        return std::pair{class_[at(a)], a} < std::pair{class_[at(b)], b};
      });
      const auto target = cells_[k].find(above);
      if (target == cells_[k].end()) return {};
      for (std::size_t i = 0; i < cell.size(); ++i) image[at(cell[i])] = classes_[k].cells[target->second][i];
    }
  return image;
}

} // namespace eg::permute
