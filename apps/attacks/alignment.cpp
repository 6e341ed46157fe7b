#include "apps/attacks/alignment.h"

#include "permute/recovery/matching.h"

#include "core/call.h"
#include "core/ops.h"

#include <fmt/format.h>

namespace eg::attacks {

std::vector<permute::Permutation> align_queries(const Tensor& shared) {
  if (shared.rank() != 3 || shared.numel() == 0)
    throw ShapeError(fmt::format("alignment: shared rows are [queries, rows, d], not {}", shared.shape().str()));
  const PauseRecording pause;
  const auto columns = [&](std::int64_t q) { return transpose(shared.select(0, q)).contiguous(); };
  const Tensor first = columns(0);
  std::vector<permute::Permutation> gathers;
  for (std::int64_t q = 0; q < shared.size(0); ++q)
    gathers.emplace_back(permute::best_match(permute::squared_distances(first, columns(q))));
  return gathers;
}

} // namespace eg::attacks
