#include "permute/inference/action.h"

#include "core/base/error.h"
#include "core/call.h"
#include "core/ops.h"
#include "permute/inference/at.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace eg::permute {
namespace {

/// Where an element of an axis comes from, given its index along all axes and where those come from that it depends on.
class AxisSource {
public:
  AxisSource(const Points& points, const PointMap& image, const AxisPoints& axis, const Shape& shape, int number)
      : points_(points), image_(image), axis_(axis), shape_(shape), n_(shape[number]), number_(number) {
    for (std::size_t i = 0; i < axis.points->size(); ++i) places_[points.vertex((*axis.points)[i])].push_back(i);
  }

  /// -1: the map leads out of the axis.
  std::int64_t find(const std::vector<std::int64_t>& index, const std::vector<std::int64_t>& source) const {
    std::int64_t row = 0, wanted = 0;
    for (const int other : axis_.over) {
      row = row * shape_[other] + index[at(other)];
      wanted = wanted * shape_[other] + source[at(other)];
    }
    const std::size_t own = at(row * n_ + index[at(number_)]);
    const Point here = points_.vertex((*axis_.points)[own]), source_point = image_[at(here)];
    if (here == source_point && row == wanted) return index[at(number_)]; // fixed ones may stand in a row several times
    const auto found = places_.find(source_point);
    if (found == places_.end()) return -1;
    for (const std::size_t place : found->second)
      if (place / at(n_) == at(wanted)) return static_cast<std::int64_t>(place % at(n_));
    return -1;
  }

private:
  const Points& points_;
  const PointMap& image_;
  const AxisPoints& axis_;
  const Shape& shape_;
  std::int64_t n_;
  int number_;
  std::unordered_map<Point, std::vector<std::size_t>> places_;
};

/// Axes such that each comes behind those that it depends on.
std::vector<int> by_dependence(const TensorPoints& t) {
  std::vector<int> order;
  while (order.size() < t.axes.size()) {
    const std::size_t before = order.size();
    for (int axis = 0; axis < static_cast<int>(t.axes.size()); ++axis) {
      const auto is_there = [&](int a) { return std::find(order.begin(), order.end(), a) != order.end(); };
      const std::vector<int>& over = t.axes[at(axis)].over;
      if (!is_there(axis) && std::all_of(over.begin(), over.end(), is_there)) order.push_back(axis);
    }
    if (order.size() == before) throw Error("symmetries: axes that depend on each other");
  }
  return order;
}

std::optional<std::vector<std::int64_t>> element_sources(const Points& points, const PointMap& image,
                                                         const TensorPoints& t, const Shape& shape) {
  std::vector<AxisSource> axes;
  axes.reserve(at(shape.rank()));
  for (int axis = 0; axis < shape.rank(); ++axis) axes.emplace_back(points, image, t.axes[at(axis)], shape, axis);
  const std::vector<int> order = by_dependence(t);
  std::vector<std::int64_t> sources, index(at(shape.rank()), 0), source(at(shape.rank()), 0);
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    std::int64_t rest = i;
    for (int axis = shape.rank(); axis-- > 0; rest /= shape[axis]) index[at(axis)] = rest % shape[axis];
    for (const int axis : order)
      if ((source[at(axis)] = axes[at(axis)].find(index, source)) < 0) return {};
    std::int64_t flat = 0;
    for (int axis = 0; axis < shape.rank(); ++axis) flat = flat * shape[axis] + source[at(axis)];
    sources.push_back(flat);
  }
  return sources;
}

std::optional<Tensor> renumbered(const Points& points, const PointMap& image, const PointList& list, const Tensor& x) {
  std::unordered_map<Point, std::int64_t> place;
  for (std::size_t i = 0; i < list.size(); ++i) place.try_emplace(points.vertex(list[i]), static_cast<std::int64_t>(i));
  std::vector<std::int64_t> new_number(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto source = place.find(image[at(points.vertex(list[i]))]);
    if (source == place.end()) return {};
    new_number[at(source->second)] = static_cast<std::int64_t>(i);
  }
  std::vector<std::int64_t> values = x.contiguous().to_vector<std::int64_t>();
  for (std::int64_t& v : values)
    if (v >= 0 && v < static_cast<std::int64_t>(list.size())) v = new_number[at(v)];
  return Tensor::from(values, x.shape());
}

} // namespace

Tensor with_numbers_moved(const Points& points, const PointMap& image, const TensorPoints& t, const Tensor& x) {
  if (t.values == nullptr || t.values->points == nullptr) return x;
  if (auto y = renumbered(points, image, *t.values->points, x)) return *std::move(y);
  throw Error("symmetries: an element does not map numbers of an index tensor to themselves");
}

std::optional<Tensor> moved_tensor(const Points& points, const PointMap& image, const TensorPoints& t,
                                   const Tensor& x) {
  const PauseRecording pause;
  const auto sources = element_sources(points, image, t, x.shape());
  if (!sources) return {};
  Tensor y = x;
  if (!std::is_sorted(sources->begin(), sources->end())) {
    const Tensor flat = x.contiguous().reshape({x.numel()});
    y = index_select(flat, 0, Tensor::from(*sources, {x.numel()})).reshape(x.shape());
  }
  if (t.values == nullptr || t.values->points == nullptr) return y;
  return renumbered(points, image, *t.values->points, y);
}

SymmetryProbe::SymmetryProbe(const ModelSymmetries::State& state, const PointList& list)
    : state_(&state), held_(at(state.points.count()), false) {
  for (const Point p : list) list_.push_back(state.structure->root(p));
  std::sort(list_.begin(), list_.end());
  list_.erase(std::unique(list_.begin(), list_.end()), list_.end());
  for (const ShownTensor& t : state.tensors)
    for (const AxisPoints& a : t.points.axes)
      for (const Point p : *a.points) held_[at(state.structure->root(p))] = true;
}

namespace {

const PointList& points_of(const ShownTensor& t, int axis) {
  return axis < 0 ? *t.points.values->points : *t.points.axis(axis).points;
}

} // namespace

SymmetryProbe::SymmetryProbe(const ModelSymmetries& symmetries, std::string_view tensor, int axis)
    : SymmetryProbe(*symmetries.state_, points_of(symmetries.state_->tensor(tensor), axis)) {}

std::vector<SymmetryProbe> SymmetryProbe::of_all_axes(const ModelSymmetries& symmetries, std::int64_t most) {
  std::vector<SymmetryProbe> probes;
  std::set<PointList> known;
  for (const PointsPtr& list : symmetries.state_->points.held()) {
    SymmetryProbe probe(*symmetries.state_, *list);
    if (probe.degree() >= 2 && probe.degree() <= most && probe.is_seen() && known.insert(probe.list_).second)
      probes.push_back(std::move(probe));
  }
  return probes;
}

bool SymmetryProbe::is_seen() const {
  return std::all_of(list_.begin(), list_.end(), [&](Point own) {
    const PointList related = state_->structure->related({own});
    return std::any_of(related.begin(), related.end(), [&](Point p) { return held_[at(p)]; });
  });
}

bool SymmetryProbe::moves_with_others() const {
  const Structure& structure = *state_->structure;
  return std::any_of(list_.begin(), list_.end(), [&](Point own) {
    const PointClass& c = structure.classes()[structure.class_of(own)];
    return c.group && std::any_of(c.cells.front().begin(), c.cells.front().end(),
                                  [&](Point p) { return !std::binary_search(list_.begin(), list_.end(), p); });
  });
}

double SymmetryProbe::log2_count() const { return state_->structure->log2_count_of(list_); }

std::optional<nn::StateDict> SymmetryProbe::moved(const Permutation& p, const nn::StateDict& tensors) const {
  PointList to;
  for (std::int64_t i = 0; i < p.size(); ++i) to.push_back(list_[at(p[i])]);
  const std::optional<PointMap> image = state_->structure->carried(list_, to, held_);
  if (!image) return {};
  nn::StateDict result;
  for (const auto& [name, x] : tensors) {
    std::optional<Tensor> y = moved_tensor(state_->points, *image, state_->tensor(name).points, x);
    if (!y) return {};
    result.emplace_back(name, *y);
  }
  return result;
}

} // namespace eg::permute
