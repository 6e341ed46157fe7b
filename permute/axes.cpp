#include "permute/axes.h"

#include "core/call.h"

#include <fmt/format.h>

#include <algorithm>

namespace eg::permute {
namespace {

const Permutation& find(const PermutationSet& permutations, const std::string& group, const std::string& parameter) {
  const auto found = permutations.find(group);
  if (found == permutations.end())
    throw ValueError(
        fmt::format("permute: no permutation for group \"{}\", which moves parameter \"{}\"", group, parameter));
  return found->second;
}

/// The groups of a state tensor, whose extents are the parameter's or 1: a mean over an axis does not see its order.
ParameterAxes axes_of_state(ParameterAxes axes, const Tensor& state, const Tensor& parameter) {
  for (int axis = 0; axis < std::min(state.rank(), static_cast<int>(axes.groups.size())); ++axis)
    if (state.shape()[axis] == 1 && parameter.shape()[axis] != 1) axes.groups[static_cast<std::size_t>(axis)].clear();
  return axes;
}

} // namespace

Tensor transform(const Tensor& x, const ParameterAxes& axes, const PermutationSet& permutations) {
  if (static_cast<std::size_t>(x.rank()) != axes.groups.size())
    throw ShapeError(fmt::format("permute: parameter \"{}\" is {}, but its axis map names {} axes", axes.parameter,
                                 x.shape().str(), axes.groups.size()));
  Tensor y = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const std::string& group = axes.groups[static_cast<std::size_t>(axis)];
    if (group.empty()) continue;
    const Permutation& p = find(permutations, group, axes.parameter);
    if (p.size() != x.shape()[axis])
      throw ShapeError(fmt::format("permute: group \"{}\" has {} elements, but axis {} of parameter \"{}\" is {}: {}",
                                   group, p.size(), axis, axes.parameter, x.shape()[axis], x.shape().str()));
    y = p.apply(y, axis);
  }
  return y;
}

nn::StateDict transform(const nn::StateDict& tensors, const AxisMap& axes, const PermutationSet& permutations) {
  nn::StateDict moved = tensors;
  for (const ParameterAxes& entry : axes) {
    bool found = false;
    for (auto& [name, value] : moved) {
      if (name != entry.parameter) continue;
      found = true;
      if (value.defined()) value = transform(value, entry, permutations);
    }
    if (!found) throw ValueError(fmt::format("permute: there is no tensor named \"{}\"", entry.parameter));
  }
  return moved;
}

PermutationSet inverse(const PermutationSet& permutations) {
  PermutationSet result;
  for (const auto& [group, p] : permutations) result.emplace(group, p.inverse());
  return result;
}

PermutationSet between(const PermutationSet& from, const PermutationSet& to) {
  PermutationSet result;
  for (const auto& [group, p] : from) {
    const auto target = to.find(group);
    if (target == to.end())
      throw ValueError(fmt::format("permute: group \"{}\" is in the first key and not in the second", group));
    result.emplace(group, p.inverse().then(target->second));
  }
  for (const auto& [group, p] : to)
    if (!from.contains(group))
      throw ValueError(fmt::format("permute: group \"{}\" is in the second key and not in the first", group));
  return result;
}

void transform_module(nn::Module& module, const AxisMap& axes, const PermutationSet& permutations) {
  const PauseRecording pause;
  module.load_state_dict(transform(module.state_dict(), axes, permutations));
}

void transform_optimizer(optim::Optimizer& optimizer, const std::vector<std::string>& names, const AxisMap& axes,
                         const PermutationSet& permutations) {
  if (names.size() != optimizer.parameters().size())
    throw ValueError(fmt::format("permute: {} names were given for an optimiser of {} parameters", names.size(),
                                 optimizer.parameters().size()));
  const PauseRecording pause;
  for (const ParameterAxes& entry : axes) {
    bool found = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] != entry.parameter) continue;
      found = true;
      for (auto& [what, value] : optimizer.state(i))
        value.copy_from(transform(value, axes_of_state(entry, value, optimizer.parameters()[i]), permutations));
    }
    if (!found) throw ValueError(fmt::format("permute: the optimiser has no parameter named \"{}\"", entry.parameter));
  }
}

PermutationSource public_source(RandomKey key) {
  return [key](std::int64_t size, std::string_view site) {
    if (size == 1) return Permutation::identity(1);
    // FNV-1a: a stable number for a site's name
    std::uint64_t tag = 0xcbf29ce484222325ULL;
    for (const char c : site) tag = (tag ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    return Permutation::random_nonidentity(size, key.fold(tag));
  };
}

} // namespace eg::permute
