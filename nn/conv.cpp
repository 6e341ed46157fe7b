#include "nn/conv.h"

#include "nn/init.h"

#include <fmt/format.h>

#include <cmath>

namespace eg::nn {

Conv2d::Conv2d(std::int64_t in, std::int64_t out, Size2 kernel, RandomKey key, const Conv2dOptions& options_,
               bool with_bias)
    : options(options_) {
  if (in <= 0 || out <= 0 || kernel.rows <= 0 || kernel.columns <= 0)
    throw ValueError(fmt::format("Conv2d: extents must be positive, not {} to {} channels, kernel ({}, {})", in, out,
                                 kernel.rows, kernel.columns));
  if (options.groups <= 0 || in % options.groups != 0 || out % options.groups != 0)
    throw ValueError(
        fmt::format("Conv2d: groups must divide the channels; {} groups, {} to {} channels", options.groups, in, out));
  const std::int64_t each = in / options.groups;
  const double bound = 1.0 / std::sqrt(static_cast<double>(each * kernel.rows * kernel.columns));
  weight = Tensor::empty({out, each, kernel.rows, kernel.columns});
  init::uniform(weight, -bound, bound, key.fold(0));
  register_parameter("weight", weight);
  if (!with_bias) return;
  bias = Tensor::empty({out});
  init::uniform(bias, -bound, bound, key.fold(1));
  register_parameter("bias", bias);
}

Tensor Conv2d::operator()(const Tensor& x) const {
  const Scope scope(*this);
  return called({&x}, conv2d(x, weight, bias, options));
}

DropPath::DropPath(double p_) : p(p_) {
  if (!(p >= 0.0 && p < 1.0)) throw ValueError(fmt::format("DropPath: p must be in [0, 1), not {}", p));
}

Tensor DropPath::operator()(const Tensor& x, RandomKey key) const {
  const Scope scope(*this);
  return called({&x}, training() && p > 0.0 ? drop_path(x, p, key) : x);
}

} // namespace eg::nn
