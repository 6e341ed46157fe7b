#include "permute/recovery/key_recovery.h"

#include "permute/least_squares.h"
#include "permute/recovery/matching.h"

#include "core/call.h"
#include "core/ops.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace eg::permute {
namespace {

/// A tensor on both sides, with the groups of its axes.
struct Pair {
  Tensor observed, known;
  std::vector<std::string> groups;
};

const Tensor* find(const nn::StateDict& tensors, const std::string& name) {
  for (const auto& [other, value] : tensors)
    if (other == name) return &value;
  return nullptr;
}

std::vector<Pair> pairs_of(const nn::StateDict& observed, const nn::StateDict& known, const AxisMap& axes) {
  std::vector<Pair> pairs;
  for (const ParameterAxes& a : axes) {
    const Tensor *x = find(observed, a.parameter), *y = find(known, a.parameter);
    if (x == nullptr || y == nullptr) continue;
    if (!(x->shape() == y->shape()) || x->rank() > 2 || x->rank() != static_cast<int>(a.groups.size()))
      throw ShapeError(fmt::format("key recovery: {} is {} where it was seen, {} where it is known, and has {} axes to "
                                   "match",
                                   a.parameter, x->shape().str(), y->shape().str(), a.groups.size()));
    pairs.push_back({x->to(DType::f64), y->to(DType::f64), a.groups});
  }
  return pairs;
}

/// Groups by how many numbers are on their axes, most first.
std::vector<std::string> groups_in_order(const std::vector<Pair>& pairs, const AxisMap& axes) {
  std::map<std::string, std::int64_t> numbers;
  for (const ParameterAxes& a : axes)
    for (const std::string& group : a.groups)
      if (!group.empty()) numbers[group] += 0;
  for (const Pair& pair : pairs)
    for (const std::string& group : pair.groups)
      if (!group.empty()) numbers[group] += pair.known.numel();
  std::vector<std::string> order;
  for (const auto& [group, count] : numbers) {
    if (count == 0) throw ValueError(fmt::format("key recovery: no tensor of the group \"{}\" is there", group));
    order.push_back(group);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](const std::string& a, const std::string& b) { return numbers[a] > numbers[b]; });
  return order;
}

/// The numbers at each index of axis `axis`: [n, k] of both sides, the other axis undone, sorted or as it is.
std::pair<Tensor, Tensor> rows_along(const Pair& pair, int axis, const PermutationSet& found) {
  if (pair.known.rank() == 1) return {pair.observed.unsqueeze(1), pair.known.unsqueeze(1)};
  Tensor x = axis == 0 ? pair.observed : transpose(pair.observed), y = axis == 0 ? pair.known : transpose(pair.known);
  const std::string& other = pair.groups[static_cast<std::size_t>(1 - axis)];
  if (other.empty()) return {x.contiguous(), y.contiguous()};
  if (const auto at = found.find(other); at != found.end()) return {at->second.inverse().apply(x, 1), y.contiguous()};
  return {sorted_rows(x.contiguous()), sorted_rows(y.contiguous())};
}

Permutation recover_group(const std::string& group, const std::vector<Pair>& pairs, const PermutationSet& found) {
  Tensor distances;
  for (const Pair& pair : pairs)
    for (int axis = 0; axis < pair.known.rank(); ++axis) {
      if (pair.groups[static_cast<std::size_t>(axis)] != group) continue;
      const double variance = pair.known.numel() < 2 ? 0.0 : var(pair.known).item();
      if (variance == 0.0) continue; // all alike: a gain that was never trained
      const auto [x, y] = rows_along(pair, axis, found);
      const Tensor here = squared_distances(x, y) / variance;
      distances = distances.defined() ? distances + here : here;
    }
  if (!distances.defined())
    throw ValueError(
        fmt::format("key recovery: every tensor of the group \"{}\" holds one number over and over", group));
  return Permutation(best_match(distances));
}

} // namespace

PermutationSet recover_key(const nn::StateDict& observed, const nn::StateDict& known, const AxisMap& axes) {
  const PauseRecording pause;
  const std::vector<Pair> pairs = pairs_of(observed, known, axes);
  PermutationSet found;
  for (const std::string& group : groups_in_order(pairs, axes))
    found.emplace(group, recover_group(group, pairs, found));
  return found;
}

Permutation sort_match(const Tensor& observed, const Tensor& known) {
  if (observed.rank() != 1 || !(observed.shape() == known.shape()))
    throw ShapeError(fmt::format("sort match: two vectors of one length are wanted, not {} and {}",
                                 observed.shape().str(), known.shape().str()));
  const PauseRecording pause;
  const auto x = argsort(observed, 0).to_vector<std::int64_t>(), y = argsort(known, 0).to_vector<std::int64_t>();
  std::vector<std::int64_t> gather(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) gather[static_cast<std::size_t>(x[i])] = y[i];
  return Permutation(std::move(gather));
}

Tensor recover_linear_map(const Tensor& observed, const Tensor& known) {
  const PivotedQr qr(known);
  if (qr.rank() < known.size(1))
    throw ValueError(fmt::format("linear map: the known rows {} have rank {}, a map of {} features needs {}",
                                 known.shape().str(), qr.rank(), known.size(1), known.size(1)));
  return qr.solve(observed);
}

} // namespace eg::permute
