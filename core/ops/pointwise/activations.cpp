// The op rows and functions of table_activations.h.

#include "core/ops/pointwise/row_macros.h"
#include "core/ops/pointwise/ternary.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg {

using namespace pointwise;
using namespace pointwise::columns;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor zero_like(const Tensor& g) { return Tensor::zeros({}, g.dtype()); }

/// g (t + x s (1 - t^2)), t = tanh(ln(1 + e^x)), s = sigmoid(x)
Tensor mish_gradient(const Tensor& x, const Tensor& g) {
  const Tensor t = tanh(neg(log_sigmoid(neg(x))));
  return add(mul(g, t), mul(mul(x, sigmoid(x)), tanh_backward(t, g)));
}

/// g times 1 or `slope`. Both are scalars, so that `where` reads the condition alone.
Tensor leaky_relu_gradient(const Tensor& x, const Tensor& g, double slope) {
  const Tensor negative = Tensor::full({}, slope, g.dtype());
  if (const auto y = fused(Ternary::leaky_relu_gradient, {x, g, negative}, x.shape())) return *y;
  return mul(g, where(gt(x, 0.0), Tensor::ones({}, g.dtype()), negative));
}

/// The exponential sees no positive x: where its value is not used it must not overflow, or 0 times infinity would
/// reach the second derivative.
Tensor elu_gradient(const Tensor& x, const Tensor& g, double alpha) {
  const Tensor power = exp(clamp(x, -infinity, 0.0));
  if (alpha == 1.0) return mul(g, power);
  const Tensor left = affine(power, alpha, 0.0);
  return mul(g, where(gt(x, 0.0), Tensor::ones({}, x.dtype()), left));
}

Tensor softplus_gradient(const Tensor& x, const Tensor& g, double beta, double threshold) {
  const Tensor z = beta == 1.0 ? x : affine(x, beta, 0.0);
  return where(gt(z, threshold), g, mul(g, sigmoid(z)));
}

constexpr Parametric clamp_attributes = {{attr_real("min", -infinity, "lower bound"),
                                          attr_real("max", infinity, "upper bound; stronger than the lower one")},
                                         {-0.7, 0.9}};
void check_bounds(const OpArgs& args) {
  const double least = args.attrs.real("min_val"), most = args.attrs.real("max_val");
  if (!(least <= most))
    throw ValueError(fmt::format("hardtanh: min_val must not exceed max_val: they are {} and {}", least, most));
}

constexpr Parametric hardtanh_attributes = {
    {attr_real("min_val", -1.0, "lower bound"), attr_real("max_val", 1.0, "upper bound")}, {-0.6, 0.8}, check_bounds};
constexpr Parametric leaky_relu_attributes = {{attr_real("negative_slope", 0.01, "slope for negative x")}, {0.3}};
constexpr Parametric elu_attributes = {{attr_real("alpha", 1.0, "the value at -inf is -alpha")}, {1.25}};
constexpr Parametric softplus_attributes = {
    {attr_real("beta", 1.0, "sharpness"), attr_real("threshold", 20.0, "x itself where beta x is larger")},
    {1.5, 1.75}};

} // namespace

EG_ACTIVATION_OPS(EG_UNARY_ROW)
EG_PARAMETRIC_ACTIVATION_OPS(EG_PARAMETRIC_ROW)

Tensor clamp(const Tensor& x, double min, double max) { return call1(clamp_op, {x}, {{"min", min}, {"max", max}}); }
Tensor hardtanh(const Tensor& x, double min_val, double max_val) {
  return call1(hardtanh_op, {x}, {{"min_val", min_val}, {"max_val", max_val}});
}
Tensor leaky_relu(const Tensor& x, double negative_slope) {
  return call1(leaky_relu_op, {x}, {{"negative_slope", negative_slope}});
}
Tensor elu(const Tensor& x, double alpha) { return call1(elu_op, {x}, {{"alpha", alpha}}); }
Tensor softplus(const Tensor& x, double beta, double threshold) {
  return call1(softplus_op, {x}, {{"beta", beta}, {"threshold", threshold}});
}

} // namespace eg
