#include "permute/symmetries.h"

#include "core/base/error.h"
#include "core/base/named_values.h"
#include "core/call.h"
#include "permute/inference/action.h"
#include "permute/inference/at.h"
#include "permute/inference/hash.h"
#include "permute/inference/layout.h"
#include "permute/inference/state.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <unordered_map>

namespace eg::permute {
namespace {

/// The gather of each row of a list [rows, n]: place i of a row gets what is at place gather[i] of the row that it
/// comes from.
std::vector<std::vector<std::int64_t>> row_gathers(const Points& points, const PointMap& image, const PointList& list,
                                                   std::int64_t n) {
  std::unordered_map<Point, std::size_t> place_of;
  for (std::size_t i = 0; i < list.size(); ++i) place_of.try_emplace(points.vertex(list[i]), i);
  std::vector<std::vector<std::int64_t>> rows;
  for (std::size_t begin = 0; begin < list.size() && n > 0; begin += at(n)) {
    std::vector<std::int64_t>& row = rows.emplace_back();
    for (std::size_t i = begin; i < begin + at(n); ++i) {
      const Point own = points.vertex(list[i]), source = image[at(own)];
      const auto found = place_of.find(source);
      if (found == place_of.end()) throw Error("symmetries: an element does not map an axis to itself");
      row.push_back(static_cast<std::int64_t>(own == source ? i : found->second) % n);
    }
  }
  return rows;
}

/// Names are those by which tensors are moved.
void check_names(const std::vector<ShownTensor>& tensors, const std::vector<std::pair<std::string, int>>& data_axes) {
  std::map<std::string_view, const ShownTensor*> named;
  for (const ShownTensor& t : tensors)
    if (!named.try_emplace(t.name, &t).second)
      throw ValueError(fmt::format("symmetries: two tensors are named \"{}\": give inputs, parameters and outputs "
                                   "names of their own",
                                   t.name));
  for (const auto& [name, axis] : data_axes) {
    const auto found = named.find(name);
    if (found == named.end())
      throw ValueError(fmt::format("symmetries: data_axes name \"{}\", which is no tensor", name));
    if (axis < 0 || axis >= found->second->shape.rank())
      throw ValueError(fmt::format("symmetries: data_axes name axis {} of \"{}\", which is {}", axis, name,
                                   found->second->shape.str()));
  }
}

void check_same_extent(const ShownTensor& a, int axis_a, const ShownTensor& b, int axis_b) {
  for (const auto& [t, axis] : {std::pair{&a, axis_a}, std::pair{&b, axis_b}})
    if (axis < 0 || axis >= t->shape.rank())
      throw ValueError(fmt::format("symmetries: \"{}\" is {} and has no axis {}", t->name, t->shape.str(), axis));
  if (a.shape[axis_a] != b.shape[axis_b])
    throw ValueError(fmt::format("symmetries: axis {} of \"{}\" {} and axis {} of \"{}\" {} cannot be tied", axis_a,
                                 a.name, a.shape.str(), axis_b, b.name, b.shape.str()));
}

} // namespace

std::string_view name_of(GroupKind kind) {
  constexpr NamedValues<GroupKind, 4> kinds{{{"symmetric", GroupKind::symmetric},
                                             {"wreath", GroupKind::wreath},
                                             {"automorphisms", GroupKind::automorphisms},
                                             {"trivial", GroupKind::trivial}}};
  return name_in(kinds, kind);
}

const ShownTensor& ModelSymmetries::State::tensor(std::string_view name) const {
  for (const ShownTensor& t : tensors)
    if (t.name == name) return t;
  throw ValueError(fmt::format("symmetries: there is no tensor \"{}\"", name));
}

std::vector<std::int64_t> ModelSymmetries::State::gather_of(const PointMap& image, const ShownTensor& t,
                                                            int axis) const {
  const PointList& list = *t.points.axis(axis).points;
  const std::vector<std::vector<std::int64_t>> rows = row_gathers(points, image, list, t.shape[axis]);
  for (const std::vector<std::int64_t>& row : rows)
    if (row != rows.front())
      throw ValueError(fmt::format("symmetries: axis {} of \"{}\" moves in another way at each index of other axes: "
                                   "no single permutation of it is this element, ModelSymmetries::moved applies it",
                                   axis, t.name));
  return rows.empty() ? std::vector<std::int64_t>{} : rows.front();
}

ModelSymmetries::ModelSymmetries(const SymmetryQuery& query) : state_(std::make_unique<State>()) {
  TapeReader reader;
  for (const auto& [name, tensor] : query.parameters) reader.declare(tensor, true);
  for (const auto& [name, tensor] : query.inputs) reader.declare(tensor, false);
  const nn::StateDict outputs = query.run();
  const nn::StateDict shown = query.shown ? query.shown() : query.parameters;
  const auto show = [&](const nn::StateDict& list, TensorRole role) {
    for (const auto& [name, tensor] : list)
      if (tensor.defined()) state_->tensors.push_back({name, role, tensor.shape(), reader.of(tensor)});
  };
  show(query.inputs, TensorRole::input);
  show(shown, TensorRole::parameter);
  show(outputs, TensorRole::output);
  check_names(state_->tensors, query.data_axes);
  for (const auto& [leaves, role] :
       {std::pair{&query.parameters, TensorRole::parameter}, std::pair{&query.inputs, TensorRole::input}})
    for (const auto& [name, tensor] : *leaves)
      if (tensor.defined()) state_->leaves.push_back({name, role, tensor.shape(), reader.of(tensor)});
  for (const auto& [a, b] : query.tied) {
    const ShownTensor &one = state_->tensor(a.first), &other = state_->tensor(b.first);
    check_same_extent(one, a.second, other, b.second);
    reader.points().unite(independent(reader.points(), one.shape, one.points.axis(a.second)),
                          independent(reader.points(), other.shape, other.points.axis(b.second)), one.shape[a.second]);
  }
  reader.close();
  state_->points = std::move(reader.points());
  state_->structure.emplace(state_->points);
  groups_ = describe_groups(state_->points, *state_->structure, state_->tensors, query.data_axes, state_->classes);
  state_->model = state_->hash_of_tensors();
}

std::uint64_t ModelSymmetries::State::hash_of_tensors() const {
  std::uint64_t hash = static_cast<std::uint64_t>(points.count());
  const auto add = [&](std::uint64_t value) { hash = mixed(hash + value); };
  for (const ShownTensor& t : tensors) {
    add(std::hash<std::string>{}(t.name));
    for (const AxisPoints& axis : t.points.axes)
      for (const Point p : *axis.points) add(static_cast<std::uint64_t>(points.vertex(p)));
  }
  return hash;
}

ModelSymmetries::~ModelSymmetries() = default;
ModelSymmetries::ModelSymmetries(ModelSymmetries&&) noexcept = default;
ModelSymmetries& ModelSymmetries::operator=(ModelSymmetries&&) noexcept = default;

const SymmetryGroup* ModelSymmetries::find(std::string_view name) const {
  for (const SymmetryGroup& g : groups_)
    if (g.name == name) return &g;
  return nullptr;
}

double ModelSymmetries::log2_count() const {
  double sum = 0.0;
  for (const SymmetryGroup& g : groups_)
    if (g.is_secret()) sum += g.log2_count;
  return sum;
}

SymmetryElement ModelSymmetries::element(const std::set<std::string>& names, const PermutationSource& source) const {
  std::map<std::size_t, std::string> site; // by class
  for (const std::string& name : names) {
    const SymmetryGroup* group = find(name);
    if (group == nullptr) throw ValueError(fmt::format("symmetries: there is no group \"{}\"", name));
    if (group->kind == GroupKind::trivial)
      throw ValueError(fmt::format("symmetries: nothing moves \"{}\": {}", name, group->because));
    if (group->kind == GroupKind::automorphisms)
      throw ValueError(
          fmt::format("symmetries: \"{}\" is not a group of all permutations, from which elements are drawn; "
                      "ModelSymmetries::generators gives what generates it",
                      name));
    const std::vector<std::size_t>& classes = state_->classes[at(group - groups_.data())];
    site[classes.front()] = name;
    if (classes.size() > 1) site[classes[1]] = name + ".blocks";
  }
  const Structure& structure = *state_->structure;
  const auto permutation_of = [&](std::size_t k, std::size_t c) -> std::optional<Permutation> {
    const auto found = site.find(k);
    if (found == site.end()) return {};
    const PointClass& own = structure.classes()[k];
    return source(own.size(), own.copies() > 1 ? fmt::format("{}[{}]", found->second, c) : found->second);
  };
  return {structure.element(permutation_of), state_->model};
}

std::vector<SymmetryElement> ModelSymmetries::generators(std::string_view name) const {
  const SymmetryGroup* group = find(name);
  if (group == nullptr) throw ValueError(fmt::format("symmetries: there is no group \"{}\"", name));
  std::vector<SymmetryElement> list;
  for (const Generator& g : state_->generators(at(group - groups_.data())))
    list.push_back({state_->image_of(g), state_->model});
  return list;
}

std::vector<Generator> ModelSymmetries::State::generators(std::size_t group) const {
  std::vector<Generator> all;
  for (std::size_t part = 0; part < classes[group].size(); ++part) {
    const std::size_t number = classes[group][part];
    const std::vector<Permutation> list = structure->classes()[number].generators();
    for (std::size_t cell = 0; cell < structure->classes()[number].cells.size(); ++cell)
      for (std::size_t i = 0; i < list.size(); ++i) all.push_back({part, number, cell, i, list[i]});
  }
  return all;
}

PointMap ModelSymmetries::State::image_of(const Generator& g) const {
  return structure->element([&](std::size_t k, std::size_t c) -> std::optional<Permutation> {
    if (k != g.number || c != g.cell) return {};
    return g.permutation;
  });
}

bool ModelSymmetries::contains(const std::vector<AxisMove>& moves) const {
  const Structure& structure = *state_->structure;
  PointList from, to;
  const auto move = [&](const PointList& own, const PointList& source) {
    for (std::size_t i = 0; i < own.size(); ++i) {
      from.push_back(state_->points.vertex(own[i]));
      to.push_back(state_->points.vertex(source[i]));
    }
  };
  // Places of all tensors that are shown, moved or not.
  for (const ShownTensor& t : state_->tensors) {
    std::vector<Permutation> along;
    for (int axis = 0; axis < t.shape.rank(); ++axis) along.push_back(Permutation::identity(t.shape[axis]));
    for (const AxisMove& m : moves) {
      if (m.tensor != t.name) continue;
      const bool numbers = m.axis == -1 && t.points.values != nullptr && t.points.values->points != nullptr;
      if (!numbers && (m.axis < 0 || m.axis >= t.shape.rank()))
        throw ValueError(fmt::format("symmetries: \"{}\" is {} and has no axis {}", t.name, t.shape.str(), m.axis));
      const std::int64_t n = numbers ? static_cast<std::int64_t>(t.points.values->points->size()) : t.shape[m.axis];
      if (m.permutation.size() != n)
        throw ValueError(fmt::format("symmetries: axis {} of \"{}\" has {} places, not {}", m.axis, t.name, n,
                                     m.permutation.size()));
      if (!numbers) {
        along[at(m.axis)] = m.permutation;
        continue;
      }
      PointList source;
      for (std::int64_t i = 0; i < n; ++i) source.push_back((*t.points.values->points)[at(m.permutation[i])]);
      move(*t.points.values->points, source);
    }
    for (int axis = 0; axis < t.shape.rank(); ++axis) {
      const AxisPoints& own = t.points.axis(axis);
      PointList source;
      for (std::size_t i = 0; i < own.points->size(); ++i) {
        // The index along the axes that this one depends on, and along itself, from the last one.
        std::size_t rest = i / at(t.shape[axis]), place = 0, stride = at(t.shape[axis]);
        const auto index = static_cast<std::int64_t>(i % at(t.shape[axis]));
        place = at(along[at(axis)][index]);
        for (std::size_t k = own.over.size(); k-- > 0;) {
          const std::size_t n = at(t.shape[own.over[k]]);
          place += at(along[at(own.over[k])][static_cast<std::int64_t>(rest % n)]) * stride;
          rest /= n;
          stride *= n;
        }
        source.push_back((*own.points)[place]);
      }
      move(*own.points, source);
    }
  }
  const std::vector<bool> nothing(at(state_->points.count()), false);
  const std::optional<PointMap> image = structure.carried(from, to, nothing);
  if (!image || !structure.contains(*image)) return false;
  for (std::size_t i = 0; i < from.size(); ++i)
    if (structure.root((*image)[at(structure.root(from[i]))]) != structure.root(to[i])) return false;
  return true;
}

std::pair<AxisMap, PermutationSet> ModelSymmetries::axis_map(const SymmetryElement& element) const {
  state_->check_own(element);
  AxisMap map;
  PermutationSet permutations;
  std::map<std::vector<std::int64_t>, std::string> names;
  for (const ShownTensor& t : state_->tensors) {
    if (t.role != TensorRole::parameter) continue;
    ParameterAxes axes{t.name, std::vector<std::string>(at(t.shape.rank()))};
    bool moves = false;
    for (int axis = 0; axis < t.shape.rank(); ++axis) {
      std::vector<std::int64_t> gather = state_->gather_of(element.image_, t, axis);
      if (std::is_sorted(gather.begin(), gather.end())) continue;
      const auto [place, is_new] = names.try_emplace(gather, fmt::format("axis {}", names.size()));
      if (is_new) permutations.emplace(place->second, Permutation(gather));
      axes.groups[at(axis)] = place->second;
      moves = true;
    }
    if (moves) map.push_back(std::move(axes));
  }
  return {std::move(map), std::move(permutations)};
}

Tensor ModelSymmetries::moved(const SymmetryElement& element, std::string_view name, const Tensor& x) const {
  state_->check_own(element);
  return state_->moved(element.image_, state_->tensor(name), x);
}

void ModelSymmetries::State::check_own(const SymmetryElement& element) const {
  if (element.model_ != model) throw ValueError("symmetries: this is an element of another model");
}

Tensor ModelSymmetries::State::moved(const PointMap& image, const ShownTensor& t, const Tensor& x) const {
  const PauseRecording pause;
  if (x.rank() != t.shape.rank())
    throw ShapeError(fmt::format("symmetries: \"{}\" is {}, not {}", t.name, t.shape.str(), x.shape().str()));
  const bool apart =
      std::all_of(t.points.axes.begin(), t.points.axes.end(), [](const AxisPoints& axis) { return axis.over.empty(); });
  Tensor y = x;
  for (int axis = 0; axis < t.shape.rank() && apart; ++axis) {
    const Permutation p(gather_of(image, t, axis));
    if (p.is_identity()) continue;
    if (x.size(axis) != p.size())
      throw ShapeError(fmt::format("symmetries: axis {} of \"{}\" has {} places that move, not {}: {}", axis, t.name,
                                   p.size(), x.size(axis), x.shape().str()));
    y = p.apply(y, axis);
  }
  if (apart) return with_numbers_moved(points, image, t.points, y);
  if (x.shape() != t.shape)
    throw ShapeError(fmt::format("symmetries: \"{}\" is {}, not {}", t.name, t.shape.str(), x.shape().str()));
  if (auto whole = moved_tensor(points, image, t.points, x)) return *std::move(whole);
  throw Error(fmt::format("symmetries: an element does not map \"{}\" to itself", t.name));
}

SymmetryElement::~SymmetryElement() {
  volatile std::int32_t* bytes = image_.data();
  for (std::size_t i = 0; i < image_.size(); ++i) bytes[i] = 0;
}

SymmetryElement SymmetryElement::inverse() const {
  std::vector<std::int32_t> back(image_.size());
  for (std::size_t i = 0; i < image_.size(); ++i) back[at(image_[i])] = static_cast<std::int32_t>(i);
  return {std::move(back), model_};
}

SymmetryElement SymmetryElement::then(const SymmetryElement& next) const {
  if (next.model_ != model_) throw ValueError("symmetries: elements of two models cannot follow each other");
  std::vector<std::int32_t> both(image_.size());
  for (std::size_t i = 0; i < image_.size(); ++i) both[i] = image_[at(next.image_[i])];
  return {std::move(both), model_};
}

} // namespace eg::permute
