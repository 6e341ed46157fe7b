#include "apps/attacks/pixel_search.h"

#include "permute/least_squares.h"
#include "permute/recovery/matching.h"

#include "autograd/tape.h"
#include "core/ops.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg::attacks {
namespace {

constexpr std::int64_t match_every = 10;

/// For each image the row of the guess that each row seen is matched with, i64 [N, T]: order[n][i] is the row of `seen`
/// matched with row i of `guess`.
Tensor matched_rows(const Tensor& guess, const Tensor& seen) {
  const PauseRecording pause;
  std::vector<std::int64_t> orders;
  for (std::int64_t n = 0; n < guess.size(0); ++n)
    for (const std::int64_t row :
         permute::best_match(permute::squared_distances(guess.select(0, n), seen.select(0, n))))
      orders.push_back(row);
  return Tensor::from<std::int64_t>(orders, {guess.size(0), guess.size(1)});
}

Tensor dot(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  Tensor total;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Tensor part = sum(a[i] * b[i]);
    total = total.defined() ? total + part : part;
  }
  return total;
}

Tensor distance_between(const std::vector<Tensor>& g, const std::vector<Tensor>& seen, GradientDistance distance) {
  if (g.size() != seen.size() || g.empty())
    throw ShapeError(fmt::format("invert_gradients: {} gradients against {}", g.size(), seen.size()));
  if (distance == GradientDistance::cosine)
    return affine(dot(g, seen) / sqrt(dot(g, g) * dot(seen, seen) + 1e-30), -1.0, 1.0);
  std::vector<Tensor> apart;
  for (std::size_t i = 0; i < g.size(); ++i) apart.push_back(g[i] - seen[i]);
  return dot(apart, apart) / (dot(seen, seen) + 1e-30);
}

} // namespace

Tensor total_variation(const Tensor& x) {
  if (x.rank() != 4)
    throw ShapeError(fmt::format("total_variation: pictures are [N, C, H, W], not {}", x.shape().str()));
  const auto along = [&](int axis) { return mean(abs(slice(x, axis, 1, x.size(axis)) - slice(x, axis, 0, -1))); };
  return along(2) + along(3);
}

Tensor search_pixels(const Shape& shape, const PixelSearch& s,
                     const std::function<Tensor(const Tensor& pictures, std::int64_t iteration)>& loss, RandomKey key) {
  const Tensor u = random_normal(shape, key, 0.0, 0.1, DType::f64);
  const auto optimizer = optim::make_optimizer("adam", {u});
  const optim::Schedule schedule{
      .kind = optim::Schedule::Kind::cosine, .base = s.lr, .total_steps = s.iterations, .final_fraction = 0.01};
  Tensor best;
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < s.iterations; ++i) {
    if (s.on_progress) s.on_progress(i);
    Tape tape;
    const Tensor x = tanh(u);
    Tensor value = loss(x, i);
    if (s.tv > 0.0) value = value + total_variation(x) * s.tv;
    if (!std::isfinite(value.item()))
      throw NumericError(fmt::format("pixel search: the loss is {} at iteration {}", value.item(), i));
    if (value.item() < least) {
      least = value.item();
      best = x.clone();
    }
    optimizer->step(tape.gradient(value, {u}), schedule.at(i));
  }
  return best;
}

Tensor invert_features(const Tensor& seen, const Shape& shape,
                       const std::function<Tensor(const Tensor& pictures)>& view, Unknown unknown,
                       const PixelSearch& search, RandomKey key) {
  const bool columns = unknown == Unknown::columns || unknown == Unknown::both,
             rows = unknown == Unknown::rows || unknown == Unknown::both;
  const Tensor target = columns ? permute::sorted_rows(seen) : seen;
  const double scale = mean(square(target)).item();
  Tensor wanted = target;
  const auto loss = [&](const Tensor& pictures, std::int64_t iteration) {
    const Tensor z = view(pictures), guess = columns ? sort(z, -1).values : z;
    if (rows && iteration % match_every == 0)
      wanted = without_tape([&] { return permute_rows(target, matched_rows(guess, target)); });
    return mean(square(guess - wanted)) / scale;
  };
  return search_pixels(shape, search, loss, key);
}

Tensor invert_gradients(const std::vector<Tensor>& seen, const Shape& shape,
                        const std::function<std::vector<Tensor>(const Tensor& pictures)>& gradients,
                        GradientDistance distance, const PixelSearch& search, RandomKey key) {
  return search_pixels(
      shape, search,
      [&](const Tensor& pictures, std::int64_t) { return distance_between(gradients(pictures), seen, distance); }, key);
}

Tensor patches_from_gradients(const Tensor& weight_gradient, const Tensor& row_gradients) {
  if (weight_gradient.rank() != 2 || row_gradients.rank() != 2 || weight_gradient.size(0) != row_gradients.size(1))
    throw ShapeError(fmt::format("patches from gradients: dL/dE is [d, p] and dL/dZ [T, d], not {} and {}",
                                 weight_gradient.shape().str(), row_gradients.shape().str()));
  const PauseRecording pause;
  return permute::PivotedQr(row_gradients.transpose(0, 1).contiguous()).solve(weight_gradient);
}

} // namespace eg::attacks
