// Elements of the group, and maps that are to be tried whether they are.

#include "core/base/error.h"
#include "permute/count.h"
#include "permute/inference/at.h"
#include "permute/inference/invariants.h"
#include "permute/inference/structure.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>

namespace eg::permute {
double PointClass::log2_count() const {
  return group ? group->log2_count() : static_cast<double>(copies()) * log2_factorial(size());
}

const PointList* Structure::target(std::size_t number, std::size_t cell, const PointMap& image) const {
  const Links& own = parents_of(number, cell);
  const auto moved = [&](const Link& up) { return Link{image[at(up.point)], up.role}; };
  std::uint64_t sum = hash_of(number);
  for (const Link& up : own) sum += hash_of(moved(up));
  const auto found = cells_.find(sum, [&](std::size_t q) {
    const Links& other = above_[q];
    return class_[q] == number && other.size() == own.size() &&
           std::all_of(own.begin(), own.end(),
                       [&](const Link& up) { return std::binary_search(other.begin(), other.end(), moved(up)); });
  });
  return found ? &classes_[number].cells[cell_[*found]] : nullptr;
}

std::optional<PointList> Structure::carry(std::size_t number, std::size_t cell, const Permutation& p,
                                          PointMap& image) const {
  PointList moved;
  using Cell = std::uint64_t; // class and cell
  const auto cell_of = [&](Point q) { return Cell{class_[at(q)]} << 32 | cell_[at(q)]; };
  std::priority_queue<Cell, std::vector<Cell>, std::greater<>> below; // cells by class: parents come first
  const auto move = [&](const PointList& from, const PointList& to, const Permutation* permutation) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      const Point source = from[permutation == nullptr ? i : at((*permutation)[static_cast<std::int64_t>(i)])];
      if (source == to[i]) continue;
      image[at(to[i])] = source;
      moved.push_back(to[i]);
      Cell last = ~Cell{0};
      for (const Link& down : below_[at(to[i])])
        if (const Cell next = cell_of(down.point); next != last) below.push(last = next);
    }
  };
  const PointList& own = classes_[number].cells[cell];
  move(own, own, &p);
  while (!below.empty()) {
    const Cell next = below.top();
    while (!below.empty() && below.top() == next) below.pop();
    const std::size_t k = next >> 32, c = next & 0xffffffff;
    const PointList* from = target(k, c, image);
    if (from == nullptr || from->size() != classes_[k].cells[c].size()) {
      for (const Point q : moved) image[at(q)] = q;
      return {};
    }
    move(*from, classes_[k].cells[c], nullptr);
  }
  return moved;
}

std::vector<Permutation> PointClass::generators() const {
  if (group) return group->generators;
  const std::int64_t n = size();
  if (n < 2) return {};
  std::vector<std::int64_t> cycle(at(n)), swap(at(n));
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[0], swap[1]);
  for (std::int64_t i = 0; i < n; ++i) cycle[at(i)] = (i + 1) % n;
  std::vector<Permutation> all{Permutation(swap)};
  if (n > 2) all.emplace_back(cycle);
  return all;
}

bool Structure::holds(std::size_t number, Invariants& invariants, PointMap& image) const {
  for (const Permutation& p : classes_[number].generators())
    for (std::size_t c = 0; c < classes_[number].cells.size(); ++c) {
      const std::optional<PointList> moved = carry(number, c, p, image);
      if (!moved) return false;
      const bool kept = invariants.kept_by(*moved, image);
      for (const Point q : *moved) image[at(q)] = q;
      if (!kept) return false;
    }
  return true;
}

PointMap
Structure::element(const std::function<std::optional<Permutation>(std::size_t, std::size_t)>& permutation) const {
  PointMap image(root_.size());
  std::iota(image.begin(), image.end(), Point{0});
  for (std::size_t k = 0; k < classes_.size(); ++k)
    for (std::size_t c = 0; c < classes_[k].cells.size(); ++c) {
      const PointList* from = target(k, c, image);
      if (from == nullptr) throw Error("symmetries: a permutation does not fit the group");
      const std::optional<Permutation> p = permutation(k, c);
      const PointList& to = classes_[k].cells[c];
      for (std::size_t i = 0; i < to.size(); ++i)
        image[at(to[i])] = (*from)[p ? at((*p)[static_cast<std::int64_t>(i)]) : i];
    }
  return image;
}

bool Structure::contains(const PointMap& image) const {
  for (std::size_t k = 0; k < classes_.size(); ++k)
    for (std::size_t c = 0; c < classes_[k].cells.size(); ++c) {
      const PointList* const from = target(k, c, image);
      if (from == nullptr) return false;
      const PointList& to = classes_[k].cells[c];
      std::vector<std::int64_t> gather;
      for (const Point p : to) {
        const auto place = std::find(from->begin(), from->end(), image[at(p)]);
        if (place == from->end()) return false;
        gather.push_back(place - from->begin());
      }
      if (classes_[k].group && !classes_[k].group->contains(Permutation(gather))) return false;
    }
  return true;
}

namespace {

/// The points and all above them, children before parents.
PointList with_all_above(PointList list, const std::vector<Links>& above) {
  std::vector<bool> seen(above.size(), false);
  for (const Point p : list) seen[at(p)] = true;
  for (std::size_t i = 0; i < list.size(); ++i)
    for (const Link& up : above[at(list[i])])
      if (!seen[at(up.point)]) {
        seen[at(up.point)] = true;
        list.push_back(up.point);
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
    for (const auto& [member, role] : below_[at(block)]) {
      if (!given[at(member)]) continue;
      for (const auto& [q, other_role] : above_[at(image[at(member)])])
        if (class_[at(q)] == class_[at(block)] && role == other_role) {
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
      const Links& above = parents_of(k, c);
      const bool moves =
          std::any_of(above.begin(), above.end(), [&](const Link& up) { return image[at(up.point)] != up.point; });
      if (!moves || given[at(cell.front())]) continue;
      const PointList* source = target(k, c, image);
      if (source == nullptr) return {};
      for (std::size_t i = 0; i < cell.size(); ++i) image[at(cell[i])] = (*source)[i];
    }
  return image;
}

} // namespace eg::permute
