#include "unit/permute_inferred.h"

#include "core/meta.h"
#include "core/ops.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fmt/format.h>
#include <set>

namespace eg::inferring {

using namespace permute;

double difference(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape())) return INFINITY;
  if (is_floating(a.dtype())) return relative_error(a.contiguous(), b.contiguous());
  return same_bits(a.contiguous(), b.contiguous()) ? 0.0 : INFINITY;
}

bool commutes(const Subject& s, const SymmetryProbe& probe, const nn::StateDict& outputs, const Permutation& p) {
  const auto moved = probe.moved(p, s.leaves());
  const auto wanted = probe.moved(p, outputs);
  if (!moved || !wanted) return false;
  const nn::StateDict found = s.f(*moved);
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!(difference(found[i].second, (*wanted)[i].second) <= tolerance)) return false;
  return true;
}

namespace {

nn::StateDict shapes_of(nn::StateDict list) {
  for (auto& [name, tensor] : list) tensor = Tensor::meta(tensor.shape(), tensor.dtype());
  return list;
}

} // namespace

ModelSymmetries inferred(const Subject& s) {
  if (s.needs_values) {
    const nn::StateDict leaves = s.leaves();
    return ModelSymmetries({.parameters = s.parameters, .inputs = s.inputs, .run = [&] { return s.f(leaves); }});
  }
  const MetaCallScope shapes_alone;
  const Subject shapes{shapes_of(s.parameters), shapes_of(s.inputs), s.f, false};
  const nn::StateDict leaves = shapes.leaves();
  return ModelSymmetries(
      {.parameters = shapes.parameters, .inputs = shapes.inputs, .run = [&] { return s.f(leaves); }});
}

namespace {

/// log2 of the number of ways to exchange places of an axis that f does not read: with those the finder alone can
/// reckon.
double unread_places(const Subject& s, const nn::StateDict& outputs, std::size_t leaf, int axis) {
  const nn::StateDict leaves = s.leaves();
  const Tensor& x = leaves[leaf].second;
  double bits = 0.0;
  if (!is_floating(x.dtype())) return bits;
  int unread = 0;
  for (std::int64_t i = 0; i < x.size(axis); ++i) {
    const Tensor other = x + random_normal(x.shape(), {9, 9}, 0.5, 0.3, DType::f64);
    nn::StateDict changed = leaves;
    changed[leaf].second =
        concat({x.slice(axis, 0, i), other.slice(axis, i, i + 1), x.slice(axis, i + 1, x.size(axis))}, axis);
    const nn::StateDict found = s.f(changed);
    bool same = true;
    for (std::size_t o = 0; o < found.size(); ++o) same = same && difference(found[o].second, outputs[o].second) == 0.0;
    if (same) bits += std::log2(static_cast<double>(++unread));
  }
  return bits;
}

/// What the finder gets on a list of points; what it proves to be all must be what was inferred, and it never finds
/// more. `rest`: log2 of what the finder is known to find besides.
void compare_axis(const std::string& what, const Subject& s, const nn::StateDict& outputs, const SymmetryProbe& probe,
                  const std::function<double()>& rest, bool sound) {
  const FoundGroup found =
      find_group(probe.degree(), [&](const Permutation& p) { return commutes(s, probe, outputs, p); });
  const double more = found.group.log2_count() - probe.log2_count();
  if (std::abs(more) < 1e-6 || (more < 0.0 && !found.maximal) || (more > 0.0 && sound)) return;
  if (more < 0.0 && probe.moves_with_others()) return; // generators are tried as elements
  CHECK_MESSAGE(std::abs(more - rest()) < 1e-6, what, ": the finder finds 2^", found.group.log2_count(),
                ", the inference 2^", probe.log2_count());
}

} // namespace

void check_elements(const std::string& what, const Subject& s, const ModelSymmetries& symmetries,
                    const nn::StateDict& outputs) {
  std::set<std::string> names;
  for (const SymmetryGroup& g : symmetries.groups())
    if (g.kind != GroupKind::trivial && g.kind != GroupKind::automorphisms) names.insert(g.name);
  const auto check = [&](const SymmetryElement& element) {
    nn::StateDict moved = s.leaves();
    for (auto& [name, x] : moved) x = symmetries.moved(element, name, x);
    const nn::StateDict found = s.f(moved);
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK_MESSAGE(difference(found[i].second, symmetries.moved(element, outputs[i].first, outputs[i].second)) <=
                        tolerance,
                    what, ": an inferred element does not commute");
  };
  for (std::uint64_t draw = 0; draw < 3 && !names.empty(); ++draw)
    check(symmetries.element(names, public_source({draw, 8})));
  for (const SymmetryGroup& g : symmetries.groups())
    if (g.kind == GroupKind::automorphisms)
      for (const SymmetryElement& generator : symmetries.generators(g.name)) check(generator);
}

int compare(const std::string& what, const Subject& s, std::int64_t most, bool between, bool sound) {
  const ModelSymmetries symmetries = inferred(s);
  const nn::StateDict outputs = s.f(s.leaves()), leaves = s.leaves();
  check_elements(what, s, symmetries, outputs);
  int compared = 0;
  std::size_t l = 0;
  for (const auto& [name, leaf] : leaves) {
    const std::size_t place = l++;
    for (int axis = 0; axis < leaf.rank(); ++axis) {
      if (leaf.size(axis) < 2) continue;
      const SymmetryProbe probe(symmetries, name, axis);
      if (probe.degree() > most) continue;
      compare_axis(
          fmt::format("{}: {} axis {}", what, name, axis), s, outputs, probe,
          [&, along = axis] { return unread_places(s, outputs, place, along); }, sound);
      ++compared;
    }
  }
  if (!between) return compared;
  constexpr std::int64_t certain = 4; // points, of which the finder tries every order
  for (const SymmetryProbe& probe : SymmetryProbe::of_all_axes(symmetries, certain)) {
    compare_axis(
        what + ": an axis between", s, outputs, probe, [] { return 0.0; }, sound);
    ++compared;
  }
  return compared;
}

Subject of_module(nn::Module& module, nn::StateDict inputs,
                  const std::function<nn::StateDict(const nn::StateDict&)>& run) {
  module.to(DType::f64);
  module.eval();
  Subject s{{}, std::move(inputs), {}, false};
  std::uint64_t tag = 1; // zeros and ones become general
  for (const nn::Parameter& p : module.named_parameters())
    s.parameters.emplace_back(p.name, random_normal(p.value.shape(), {tag++, 77}, 0.3, 0.5, DType::f64));
  s.f = [&module, run, count = s.parameters.size()](const nn::StateDict& leaves) {
    std::vector<Tensor> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(leaves[i].second);
    const nn::ParameterScope scope(module, values);
    return run({leaves.begin() + static_cast<std::ptrdiff_t>(count), leaves.end()});
  };
  return s;
}

} // namespace eg::inferring
