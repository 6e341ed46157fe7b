#include "permute/inference/points.h"

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "permute/inference/at.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace eg::permute {
namespace {} // namespace

PointsPtr Points::fresh(std::int64_t n) {
  PointsPtr list = allocated(n);
  hold(list, n);
  return list;
}

PointsPtr Points::allocated(std::int64_t n) {
  poll_interrupt();
  constexpr std::int64_t most = std::int64_t{1} << 25; // some GiB in all
  if (n > most - count())
    throw ValueError(fmt::format("symmetries: the axes of this model have more than {} indices in all", most));
  auto list = std::make_shared<PointList>(at(n));
  std::iota(list->begin(), list->end(), static_cast<Point>(up_.size()));
  up_.insert(up_.end(), list->begin(), list->end());
  reason_.resize(up_.size(), -1);
  return list;
}

Point Points::find(Point p) const {
  while (up_[at(p)] != p) p = up_[at(p)] = up_[at(up_[at(p)])];
  return p;
}

void Points::unite(const PointList& a, const PointList& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Point x = find(a[i]), y = find(b[i]);
    const auto [kept, gone] = std::minmax(x, y);
    up_[at(gone)] = kept;
    if (reason_[at(kept)] < 0) reason_[at(kept)] = reason_[at(gone)];
  }
}

void Points::add_parent(Point child, Point parent) { parents_.emplace_back(child, parent); }

void Points::fix(const PointList& list, const std::string& reason) {
  if (list.empty()) return;
  if (reasons_.empty() || reasons_.back() != reason) reasons_.push_back(reason);
  for (const Point p : list) {
    std::int32_t& own = reason_[at(find(p))];
    if (own < 0) own = static_cast<std::int32_t>(reasons_.size() - 1);
  }
}

void Points::drop_parents(const PointList& list, const std::string& reason) {
  const auto listed = [&](Point p) { return std::find(list.begin(), list.end(), find(p)) != list.end(); };
  std::erase_if(parents_, [&](const auto& pair) { return listed(pair.first) && listed(pair.second); });
  fix(list, reason);
}

void Points::hold(const PointsPtr& list, std::int64_t width) {
  if (list == nullptr || list->empty() || width < 1) return;
  held_.push_back(list);
  rows_.try_emplace(list, width);
}

std::vector<std::pair<PointList, Point>> Points::joined() const { return {joints_.begin(), joints_.end()}; }

void Points::keep_to(const PointsPtr& list, PermutationGroup group, const std::string& reason) {
  const std::vector<std::vector<std::int64_t>> orbits = group.orbits();
  double most = 0.0; // log2 of the order of the group of all permutations that keep the orbits
  for (const std::vector<std::int64_t>& orbit : orbits) {
    auto points = std::make_shared<PointList>();
    for (const std::int64_t i : orbit) points->push_back((*list)[at(i)]);
    if (orbit.size() == 1) fix(*points, reason);
    hold(points, static_cast<std::int64_t>(points->size()));
    for (std::size_t k = 2; k <= orbit.size(); ++k) most += std::log2(static_cast<double>(k));
  }
  if (most > group.log2_count() + 0.5) kept_.emplace_back(list, std::move(group));
}

Point Points::joint(std::vector<Point> parents) {
  for (Point& p : parents) p = find(p);
  const auto [place, is_new] = joints_.try_emplace(parents, 0);
  if (is_new) {
    place->second = allocated(1)->front();
    for (const Point p : parents) add_parent(place->second, p);
  }
  return place->second;
}

PointsPtr Points::blocks(const PointsPtr& list, std::int64_t width) {
  PointsPtr& known = blocks_[{list, width}];
  if (known != nullptr) return known;
  known = fresh(static_cast<std::int64_t>(list->size()) / width);
  for (std::size_t i = 0; i < list->size(); ++i) add_parent((*list)[i], (*known)[i / at(width)]);
  return known;
}

PointsPtr Points::common(const PointsPtr& list, std::int64_t before, std::int64_t rows) {
  PointsPtr& known = common_[{list, before, rows}];
  if (known != nullptr) return known;
  const std::size_t after = list->size() / at(before * rows);
  known = fresh(before * static_cast<std::int64_t>(after));
  for (std::size_t i = 0; i < list->size(); ++i)
    add_parent((*list)[i], (*known)[i / (at(rows) * after) * after + i % after]);
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
  for (const std::int64_t i : index) {
    const Point p = (*list)[at(i)];
    result->push_back(times[at(i)] == 1 ? p : allocated(1)->front());
    if (times[at(i)] > 1) add_parent(result->back(), p);
  }
  hold(result, static_cast<std::int64_t>(index.size()));
  if (!std::is_sorted(index.begin(), index.end())) shuffled_.push_back(result);
  return result;
}

const std::string* Points::reason(Point p) const {
  const std::int32_t own = reason_[at(find(p))];
  return own < 0 ? nullptr : &reasons_[at(own)];
}

} // namespace eg::permute
