#include "permute/recovery/vocabulary.h"

#include "permute/recovery/matching.h"

#include "core/call.h"
#include "core/ops.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace eg::permute {

VocabularyMatch match_vocabulary(const Tensor& observed, const NextStates& next, StateForm form) {
  if (observed.rank() != 2)
    throw ShapeError(fmt::format("vocabulary matching: states are [T, d], not {}", observed.shape().str()));
  const PauseRecording pause;
  const auto described = [&](const Tensor& states) {
    return form.columns ? sorted_rows(states.to(DType::f64)) : states.to(DType::f64);
  };
  const Tensor seen = described(observed);
  std::vector<std::int64_t> left(static_cast<std::size_t>(observed.size(0)));
  std::iota(left.begin(), left.end(), std::int64_t{0});
  VocabularyMatch found;
  while (!left.empty()) {
    const std::span<const std::int64_t> open(left.data(), form.rows ? left.size() : 1);
    const Tensor rows =
        index_select(seen, 0, Tensor::from<std::int64_t>(open, {static_cast<std::int64_t>(open.size())}));
    const Tensor distances = absolute_distances(rows, described(next(found.ids)));
    const std::int64_t best = argmin(distances.reshape({-1}), 0).to_vector<std::int64_t>().front();
    const std::int64_t row = best / distances.size(1), id = best % distances.size(1);
    found.ids.push_back(id);
    found.rows.push_back(left[static_cast<std::size_t>(row)]);
    found.distances.push_back(distances.at({row, id}));
    left.erase(left.begin() + row);
  }
  return found;
}

Permutation features_from_states(const Tensor& observed, const Tensor& known) {
  const PauseRecording pause;
  return Permutation(best_match(squared_distances(transpose(observed).contiguous(), transpose(known).contiguous())));
}

} // namespace eg::permute
