// The op rows and functions of table_math.h.

#include "core/ops/pointwise/row_macros.h"
#include "core/ops/pointwise/scalar.h"
#include "core/ops/pointwise/ternary.h"

#include <cmath>
#include <numbers>

namespace eg {

using namespace pointwise;
using namespace pointwise::columns;

namespace {

/// In [-1, 1), away from the poles of tan.
Tensor within_one(const Shape& shape, DType dtype, std::uint64_t tag) {
  return sample_uniform(shape, dtype, tag, -1.0, 1.0);
}

Tensor within_nine_tenths(const Shape& shape, DType dtype, std::uint64_t tag) {
  return sample_uniform(shape, dtype, tag, -0.9, 0.9);
}
/// In [1.2, 4).
Tensor above_one(const Shape& shape, DType dtype, std::uint64_t tag) {
  return sample_uniform(shape, dtype, tag, 1.2, 4.0);
}

/// Pairs of these have quotients between 3.2 and 3.8 in size, or half that: away from the jumps at whole numbers, and
/// of more than one whole part.
Tensor dividend(const Shape& shape, DType dtype, std::uint64_t tag) {
  return mul(sign(sample_normal(shape, dtype, tag)), sample_uniform(shape, dtype, tag, 3.45, 3.55));
}
Tensor divisor(const Shape& shape, DType dtype, std::uint64_t tag) {
  const Tensor size = affine(relu(sign(sample_normal(shape, dtype, tag + 500))), 1.0, 1.0); // 1 or 2
  return mul(size, sample_uniform(shape, dtype, tag, 0.95, 1.05));
}

/// erf'(x) = 2 / sqrt(pi) e^(-x^2)
Tensor bell(const Tensor& x) { return affine(exp(neg(square(x))), 2.0 * std::numbers::inv_sqrtpi, 0.0); }

/// 1 - x^2, without cancellation near 1.
Tensor one_minus_square(const Tensor& x) { return mul(affine(x, -1.0, 1.0), affine(x, 1.0, 1.0)); }

/// (x^2 + 1)^(-1/2), of large x as |1/x| (1 + 1/x^2)^(-1/2): squares do not overflow.
Tensor asinh_slope(const Tensor& x) {
  const Tensor one = Tensor::ones({}, x.dtype());
  const Tensor large = logical_or(gt(x, 1.0), lt(x, -1.0));
  const Tensor inner = rsqrt(affine(square(where(large, one, x)), 1.0, 1.0));
  const Tensor inverse = reciprocal(where(large, x, one));
  return where(large, mul(abs(inverse), rsqrt(affine(square(inverse), 1.0, 1.0))), inner);
}

/// g top / (a^2 + b^2). Both are divided by the larger, which no tape sees: the quotient is the same for any divisor.
Tensor atan2_slope(const Tensor& top, const Tensor& a, const Tensor& b, const Tensor& g) {
  Tensor size;
  {
    const PauseRecording pause;
    size = maximum(abs(a), abs(b));
  }
  const Tensor p = div(a, size), q = div(b, size);
  return div(mul(g, div(div(top, size), add(square(p), square(q)))), size);
}

/// Where two values are compared: nothing to the one that loses, half each where they are equal, else g: to both beside
/// a NaN, which neither wins nor loses.
Tensor share(const Tensor& loses, const Tensor& equal, const Tensor& g) {
  return where(loses, Tensor::zeros({}, g.dtype()), where(equal, affine(g, 0.5, 0.0), g));
}

/// g ((1 - t) s(x) - t s(-x)), without cancellation where t is 0 or 1.
Tensor logit_loss_gradient(const Tensor& x, const Tensor& t, const Tensor& g) {
  if (const auto y = fused(Ternary::logit_loss_gradient, {x, t, g}, x.shape())) return *y;
  return mul(g, addcmul(mul(affine(t, -1.0, 1.0), sigmoid(x)), t, sigmoid(neg(x)), -1.0));
}

/// g exponent x^(exponent - 1), without 0 times infinity at x = 0 for exponent 0.
Tensor pow_gradient(const Tensor& x, const Tensor& g, double exponent) {
  if (exponent == 0.0) return Tensor();
  return exponent == 1.0 ? g : mul(affine(g, exponent, 0.0), pow(x, exponent - 1.0));
}

/// g b a^(b-1); 0 at a = b = 0.
Tensor pow_base_gradient(const Tensor& a, const Tensor& b, const Tensor& g) {
  const Tensor both_zero = logical_and(eq(a, 0.0), eq(b, 0.0));
  return mul(g, mul(b, pow(a, where(both_zero, Tensor::ones({}, b.dtype()), affine(b, 1.0, -1.0)))));
}

/// g a^b ln a; 0 at a = 0 for b >= 0, where a^b is 0 or the step from 1 to 0.
Tensor pow_exponent_gradient(const Tensor& a, const Tensor& b, const Tensor& y, const Tensor& g) {
  const Tensor at_zero = logical_and(eq(a, 0.0), ge(b, 0.0));
  return mul(mul(g, y), log(where(at_zero, Tensor::ones({}, a.dtype()), a)));
}

constexpr Parametric pow_attributes = {{required_attr("exponent", AttrKind::real, "any real number")}, {1.7}};

} // namespace

EG_MATH_OPS(EG_UNARY_ROW)
EG_STEP_OPS(EG_STEP_ROW)
EG_SCALAR_OPS(EG_UNARY_ROW)
EG_SCALAR_PARAMETRIC_OPS(EG_PARAMETRIC_ROW)
EG_MATH_BINARY_OPS(EG_BINARY_ROW)
EG_SCALAR_BINARY_OPS(EG_BINARY_ROW)
EG_SCALAR_BINARY_STEP_OPS(EG_BINARY_STEP_ROW)

Tensor pow_scalar(const Tensor& x, double exponent) { return call1(pow_scalar_op, {x}, {{"exponent", exponent}}); }

} // namespace eg
