#include "data/tensor_stats.h"

#include "core/strided.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace eg::data {
namespace {

/// What is kept of a part: enough to join it with another one (Chan, Golub, LeVeque, 1983).
struct Part {
  std::int64_t finite = 0;
  std::int64_t nan = 0;
  std::int64_t infinite = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double mean = 0;
  double squares = 0; ///< of the distances from the mean
};

/// In two passes without branches.
template <class T> Part part_of(const T* values, std::int64_t count) {
  Part part;
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    const bool finite = std::isfinite(value);
    part.finite += finite ? 1 : 0;
    part.nan += std::isnan(value) ? 1 : 0;
    part.min = finite && value < part.min ? value : part.min;
    part.max = finite && value > part.max ? value : part.max;
    sum += finite ? value : 0.0;
  }
  part.infinite = count - part.finite - part.nan;
  if (part.finite == 0) return part;
  const auto n = static_cast<double>(part.finite);
  part.mean = sum / n;
  const auto each_finite = [&](auto&& visit) {
    for (std::int64_t i = 0; i < count; ++i)
      if (const auto value = static_cast<double>(values[i]); std::isfinite(value)) visit(value);
  };
  if (!std::isfinite(part.mean)) { // numbers near the largest
    part.mean = 0;
    each_finite([&](double value) { part.mean += value / n; });
  }
  each_finite([&](double value) { part.squares += (value - part.mean) * (value - part.mean); });
  return part;
}

void join(Part& all, const Part& next) {
  all.nan += next.nan;
  all.infinite += next.infinite;
  if (next.finite == 0) return;
  const auto before = static_cast<double>(all.finite);
  const auto added = static_cast<double>(next.finite);
  const double distance = next.mean - all.mean;
  const double share = added / (before + added);
  all.mean += distance * share;
  all.squares += next.squares + distance * distance * before * share;
  all.finite += next.finite;
  all.min = std::min(all.min, next.min);
  all.max = std::max(all.max, next.max);
}

} // namespace

TensorStats statistics(const Tensor& tensor) {
  const Tensor packed = tensor.is_contiguous() ? tensor : tensor.clone();
  constexpr std::int64_t grain = 1 << 16;
  std::vector<Part> parts(static_cast<std::size_t>(parallel::chunks(packed.numel(), grain)));
  visit_dtype(packed.dtype(), [&]<class T>() {
    const T* values = packed.data<T>();
    parallel::for_each(packed.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
      parts[static_cast<std::size_t>(begin / grain)] = part_of(values + begin, end - begin);
    });
  });
  Part all;
  for (const Part& part : parts) join(all, part);
  TensorStats stats{all.finite, all.nan, all.infinite, all.min, all.max, all.mean, 0};
  if (all.finite == 0)
    stats.min = stats.max = stats.mean = stats.deviation = std::numeric_limits<double>::quiet_NaN();
  else
    stats.deviation = std::sqrt(all.squares / static_cast<double>(all.finite));
  return stats;
}

} // namespace eg::data
