// The op rows and functions of arithmetic and of the activations of the first table.

#include "core/ops/pointwise/row_macros.h"
#include "core/ops/pointwise/ternary.h"

#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace eg {

using namespace pointwise;
using namespace pointwise::columns;

// --- second derivatives, made of ops ---

namespace {

/// x, held where the curvature is 0 already and squares do not overflow.
Tensor held(const Tensor& x, double most) { return clamp(x, -most, most); }

} // namespace

Tensor gelu_curvature(const Tensor& x) { // phi(x) (2 - x^2)
  const Tensor c = held(x, 40.0);
  const Tensor square = mul(c, c);
  const Tensor density = affine(exp(affine(square, -0.5, 0.0)), 1.0 / std::sqrt(2.0 * std::numbers::pi), 0.0);
  return mul(density, affine(square, -1.0, 2.0));
}

Tensor gelu_tanh_curvature(const Tensor& at) { // (1 - t^2) (u' + x (u'' - 2 t u'^2) / 2), t = tanh u
  const Tensor x = held(at, 30.0);
  const double k = std::sqrt(2.0 / std::numbers::pi);
  const double c = 0.044715;
  const Tensor square = mul(x, x);
  const Tensor t = tanh(mul(x, affine(square, k * c, k)));
  const Tensor u1 = affine(square, 3.0 * k * c, k);
  const Tensor u2 = affine(x, 6.0 * k * c, 0.0);
  const Tensor inner = sub(u2, affine(mul(t, mul(u1, u1)), 2.0, 0.0));
  return mul(affine(mul(t, t), -1.0, 1.0), add(u1, affine(mul(x, inner), 0.5, 0.0)));
}

Tensor silu_curvature(const Tensor& x) { // s (1 - s) (2 + x (1 - 2 s))
  const Tensor s = sigmoid(x);
  const Tensor slope = mul(s, affine(s, -1.0, 1.0));
  return mul(slope, affine(mul(x, affine(s, -2.0, 1.0)), 1.0, 2.0));
}

Tensor hardswish_curvature(const Tensor& x) { // 1/3 between the kinks
  return where(le(abs(x), 3.0), Tensor::full({}, 1.0 / 3.0, x.dtype()), Tensor::zeros({}, x.dtype()));
}

// --- rows ---

namespace {

/// -g y^3 / 2, y = x^(-1/2)
Tensor rsqrt_gradient(const Tensor& y, const Tensor& g) {
  if (const auto dx = fused(Ternary::cube_gradient, {y, g, Tensor::full({}, -0.5, g.dtype())}, y.shape())) return *dx;
  return mul(affine(g, -0.5, 0.0), mul(y, mul(y, y)));
}

constexpr Parametric affine_attributes = {{attr_real("scale", 1.0, "factor"), attr_real("shift", 0.0, "added last")},
                                          {-0.75, 0.5}};

} // namespace

EG_UNARY_OPS(EG_UNARY_ROW)
EG_PARAMETRIC_OPS(EG_PARAMETRIC_ROW)
EG_BINARY_OPS(EG_BINARY_ROW)

// The operators + - * / with a number call this, whose name their user did not write.
Tensor affine(const Tensor& x, double scale, double shift) {
  const bool whole = scale == std::floor(scale) && shift == std::floor(shift);
  if (x.defined() && (x.dtype() == DType::bf16 || (is_whole(x.dtype()) && !whole)))
    throw DTypeError(fmt::format(
        "arithmetic of a tensor and a number: x is {}{}; convert it with to(\"f32\")", name_of(x.dtype()),
        is_whole(x.dtype()) ? fmt::format(", and {} is no whole number", scale == std::floor(scale) ? shift : scale)
                            : std::string()));
  return call1(affine_op, {x}, {{"scale", scale}, {"shift", shift}});
}

} // namespace eg
