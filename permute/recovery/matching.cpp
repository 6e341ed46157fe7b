#include "permute/recovery/matching.h"

#include "core/call.h"
#include "core/ops.h"
#include "permute/recovery/assignment.h"

#include <fmt/format.h>

namespace eg::permute {
namespace {

void check(const Tensor& a, const Tensor& b) {
  if (a.rank() != 2 || b.rank() != 2 || a.size(1) != b.size(1))
    throw ShapeError(fmt::format("matching: what was seen is {}, what is known is {}; both are rows of as many numbers",
                                 a.shape().str(), b.shape().str()));
}

} // namespace

Tensor squared_distances(const Tensor& a, const Tensor& b) {
  check(a, b);
  const PauseRecording pause;
  // Around the known rows' mean, so that what all have in common costs no digits.
  const Tensor wide = b.to(DType::f64), middle = mean(wide, {0}, true);
  const Tensor x = a.to(DType::f64) - middle, y = wide - middle;
  const Tensor xx = sum(x * x, {1}, true), yy = sum(y * y, {1}).reshape({1, b.size(0)});
  return relu(xx + yy - matmul(x, y, false, true) * 2.0);
}

Tensor absolute_distances(const Tensor& a, const Tensor& b) {
  check(a, b);
  const PauseRecording pause;
  const Tensor x = a.to(DType::f64), y = b.to(DType::f64);
  std::vector<Tensor> lines;
  for (std::int64_t i = 0; i < a.size(0); ++i) lines.push_back(sum(abs(y - x.slice(0, i, i + 1)), {1}));
  return stack(lines, 0);
}

std::vector<std::int64_t> best_match(const Tensor& distances) {
  if (distances.rank() != 2 || distances.size(0) > distances.size(1))
    throw ShapeError(
        fmt::format("matching: {} are not enough known things for all that were seen", distances.shape().str()));
  return hungarian(distances).columns.to_vector<std::int64_t>();
}

std::vector<std::int64_t> nearest_match(const Tensor& distances) {
  const PauseRecording pause;
  return argmin(distances, 1).to_vector<std::int64_t>();
}

Tensor sorted_rows(const Tensor& x) {
  const PauseRecording pause;
  return sort(x, -1).values;
}

} // namespace eg::permute
