#include "permute/inference/labelled_graph.h"

#include "core/call.h"
#include "permute/inference/hash.h"
#include "permute/relation.h"

#include <unordered_map>
#include <utility>

namespace eg::permute {

LabelledGraph::LabelledGraph(std::size_t vertices) : vertices_(vertices), sums_(vertices * vertices, 0) {}

void LabelledGraph::add(std::size_t from, std::size_t to, std::uint64_t value) {
  sums_[from * vertices_ + to] += mixed(value);
}

/// Equal sums become equal numbers.
Tensor LabelledGraph::matrix() const {
  std::unordered_map<std::uint64_t, double> numbers;
  std::vector<double> values;
  values.reserve(sums_.size());
  for (const std::uint64_t sum : sums_)
    values.push_back(numbers.try_emplace(sum, static_cast<double>(numbers.size())).first->second);
  const auto n = static_cast<std::int64_t>(vertices_);
  return Tensor::from(values, {n, n});
}

PermutationGroup LabelledGraph::automorphisms(std::size_t count) const {
  const PauseRecording pause;
  PermutationGroup whole = permute::automorphisms(matrix());
  if (count == vertices_) return whole;
  PermutationGroup group{static_cast<std::int64_t>(count), {}, std::move(whole.factors)};
  for (const Permutation& g : whole.generators)
    group.generators.emplace_back(
        std::vector<std::int64_t>(g.gather().begin(), g.gather().begin() + static_cast<std::ptrdiff_t>(count)));
  return group;
}

std::vector<std::vector<std::int32_t>> LabelledGraph::twins() const {
  const PauseRecording pause;
  return Relation::of(matrix()).twins();
}

} // namespace eg::permute
