#include "apps/attacks/fingerprints.h"

#include "permute/recovery/matching.h"

#include "core/call.h"
#include "core/ops.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::attacks {
namespace {

void need_scores(const Tensor& scores) {
  if (scores.rank() != 3 || scores.size(1) != scores.size(2))
    throw ShapeError(fmt::format("attention: scores are [heads, T, T], not {}", scores.shape().str()));
}

/// [T, heads (1 + 2 T)]: of each head the diagonal, the sorted row and the sorted column.
Tensor descriptions(const Tensor& scores) {
  std::vector<Tensor> parts;
  for (std::int64_t h = 0; h < scores.size(0); ++h) {
    const Tensor s = scores.select(0, h).to(DType::f64).contiguous();
    parts.push_back(einsum("ii->i", {s}).unsqueeze(1));
    parts.push_back(permute::sorted_rows(s));
    parts.push_back(permute::sorted_rows(transpose(s).contiguous()));
  }
  return concat(parts, 1);
}

/// [heads, T^2]
Tensor sorted_scores(const Tensor& scores) {
  return permute::sorted_rows(scores.to(DType::f64).contiguous().reshape({scores.size(0), -1}));
}

/// The known scores with heads in the order of those that were seen: whole heads may have moved.
Tensor heads_in_order(const Tensor& observed, const Tensor& known) {
  const std::vector<std::int64_t> heads =
      permute::best_match(permute::absolute_distances(sorted_scores(observed), sorted_scores(known)));
  return index_select(known, 0, Tensor::from<std::int64_t>(heads, {static_cast<std::int64_t>(heads.size())}));
}

/// [heads, T, head_dim] as rows [T, heads head_dim], sorted within heads where that is wanted.
Tensor rows_of_cache(const Tensor& x, CacheForm form) {
  const Tensor wide = x.to(DType::f64).contiguous();
  return transpose(form == CacheForm::within_heads ? permute::sorted_rows(wide) : wide, 0, 1)
      .contiguous()
      .reshape({x.size(1), x.size(0) * x.size(2)});
}

} // namespace

permute::Permutation rows_of_causal_mask(const Tensor& mask) {
  if (mask.rank() != 2 || mask.size(0) != mask.size(1))
    throw ShapeError(fmt::format("mask: it is [T, T], not {}", mask.shape().str()));
  const PauseRecording pause;
  const Tensor seen = mask.dtype() == DType::boolean ? mask : eq(mask, 0.0);
  std::vector<std::int64_t> rows = count_nonzero(seen, {1}).to_vector<std::int64_t>();
  for (std::int64_t& r : rows) --r;
  std::vector<std::int64_t> sorted = rows;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<std::int64_t>(i))
      throw ValueError("mask: its rows do not see 1, 2, 3, ... tokens; it is no causal mask in any order");
  return permute::Permutation(std::move(rows));
}

permute::Permutation rows_by_attention(const Tensor& observed, const Tensor& known) {
  need_scores(observed);
  need_scores(known);
  const PauseRecording pause;
  if (!(observed.shape() == known.shape()))
    throw ShapeError(fmt::format("attention: scores {} cannot be those of an input with {}", observed.shape().str(),
                                 known.shape().str()));
  return permute::Permutation(permute::best_match(
      permute::squared_distances(descriptions(observed), descriptions(heads_in_order(observed, known)))));
}

std::size_t text_by_attention(const Tensor& observed, const std::vector<Tensor>& candidates) {
  need_scores(observed);
  const PauseRecording pause;
  const Tensor seen = sorted_scores(observed);
  std::vector<double> distances;
  for (const Tensor& candidate : candidates) {
    if (!(candidate.shape() == observed.shape()))
      throw ShapeError(fmt::format("attention: scores {} cannot be those of a text with {}", observed.shape().str(),
                                   candidate.shape().str()));
    distances.push_back(sum(abs(sorted_scores(heads_in_order(observed, candidate)) - seen)).item());
  }
  if (distances.empty()) throw ShapeError("attention: there are no candidates");
  return static_cast<std::size_t>(std::min_element(distances.begin(), distances.end()) - distances.begin());
}

std::vector<std::int64_t> text_by_cache(const Tensor& cached, const Tensor& vocabulary, CacheForm form) {
  if (cached.rank() != 3 || vocabulary.rank() != 3 || cached.size(0) != vocabulary.size(0) ||
      cached.size(2) != vocabulary.size(2))
    throw ShapeError(fmt::format("cache: it is [heads, T, head_dim] and the vocabulary's [heads, V, head_dim], not {} "
                                 "and {}",
                                 cached.shape().str(), vocabulary.shape().str()));
  const PauseRecording pause;
  return permute::nearest_match(
      permute::squared_distances(rows_of_cache(cached, form), rows_of_cache(vocabulary, form)));
}

} // namespace eg::attacks
