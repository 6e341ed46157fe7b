#include "data/mix.h"

#include "core/base/error.h"
#include "core/exact/elementary.h"
#include "core/ops.h"
#include "core/ops/views/strided_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace eg::data {
namespace {

/// Gamma(alpha) with scale 1.
double random_gamma(double alpha, RandomStream& random) {
  // Gamma(a) is Gamma(a + 1) U^(1/a).
  if (alpha < 1.0) {
    const double whole = random_gamma(alpha + 1.0, random);
    return whole * exact::pow(1.0 - random.uniform(), 1.0 / alpha);
  }
  const double d = alpha - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = random.normal(), root = 1.0 + c * x;
    if (root <= 0.0) continue;
    const double v = root * root * root, u = 1.0 - random.uniform();
    if (exact::log(u) < 0.5 * x * x + d - d * v + d * exact::log(v)) return d * v;
  }
}

struct Box {
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
  std::int64_t area() const { return (bottom - top) * (right - left); }
};

Box draw_box(double lambda, std::int64_t height, std::int64_t width, RandomStream& random) {
  const double side = std::sqrt(1.0 - lambda);
  const auto half = [&](std::int64_t extent) {
    return static_cast<std::int64_t>(side * static_cast<double>(extent)) / 2;
  };
  const auto y = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(height)));
  const auto x = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(width)));
  return {std::max<std::int64_t>(y - half(height), 0), std::min(y + half(height), height),
          std::max<std::int64_t>(x - half(width), 0), std::min(x + half(width), width)};
}

/// `images` with the box of every image taken from its partner.
template <class T> Tensor with_box(const Tensor& images, const std::vector<std::int64_t>& partner, const Box& box) {
  const Tensor packed = images.contiguous();
  Tensor out = packed_copy(packed);
  const T* from = packed.data<T>();
  T* to = out.mutable_data<T>("cutmix");
  const std::int64_t channels = images.size(1), height = images.size(2), width = images.size(3);
  for (std::size_t i = 0; i < partner.size(); ++i)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = box.top; y < box.bottom; ++y) {
        const std::int64_t row = (c * height + y) * width, image = channels * height * width;
        std::copy_n(from + partner[i] * image + row + box.left, box.right - box.left,
                    to + static_cast<std::int64_t>(i) * image + row + box.left);
      }
  return out;
}

/// lambda x_i + (1 - lambda) x_p(i)
Tensor blend(const Tensor& x, const Tensor& order, double lambda) {
  return affine(x, lambda, 0.0) + affine(index_select(x, 0, order), 1.0 - lambda, 0.0);
}

void check(const Mixing& mixing, const Tensor& images, const Tensor& targets) {
  if (!mixing.any()) throw ValueError("mix: neither mixup nor cutmix is asked for");
  if (images.rank() != 4 || targets.rank() != 2 || targets.size(0) != images.size(0))
    throw ShapeError(fmt::format("mix: images are [B, C, H, W] and targets [B, K]: images is {}, targets is {}",
                                 images.shape().str(), targets.shape().str()));
  if (!is_floating(images.dtype()) || targets.dtype() != images.dtype())
    throw DTypeError(fmt::format("mix: images and targets are f32 or f64 alike, not {} and {}", name_of(images.dtype()),
                                 name_of(targets.dtype())));
}

} // namespace

double random_beta(double alpha, RandomStream& random) {
  if (!(alpha > 0.0 && std::isfinite(alpha)))
    throw ValueError(fmt::format("random_beta: alpha must be positive, not {}", alpha));
  const double g = random_gamma(alpha, random), h = random_gamma(alpha, random);
  // Both underflow where alpha is very small: the distribution is then all but a fair coin.
  return g + h > 0.0 ? g / (g + h) : static_cast<double>(random.below(2));
}

MixedBatch mix(const Mixing& mixing, const Tensor& images, const Tensor& targets, RandomKey key) {
  check(mixing, images, targets);
  RandomStream random(key.fold(0));
  const bool cut = mixing.mixup == 0.0 || (mixing.cutmix > 0.0 && random.below(2) == 1);
  double lambda = random_beta(cut ? mixing.cutmix : mixing.mixup, random);
  const Tensor order = random_permutation(images.size(0), key.fold(1));
  if (!cut) return {blend(images, order, lambda), blend(targets, order, lambda)};
  const std::vector<std::int64_t> partner = order.to_vector<std::int64_t>();
  const Box box = draw_box(lambda, images.size(2), images.size(3), random);
  lambda = 1.0 - static_cast<double>(box.area()) / static_cast<double>(images.size(2) * images.size(3));
  return {images.dtype() == DType::f32 ? with_box<float>(images, partner, box) : with_box<double>(images, partner, box),
          blend(targets, order, lambda)};
}

} // namespace eg::data
