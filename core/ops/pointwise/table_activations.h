#pragma once
// Lists the activation functions beyond those of table.h. Columns as there. The rules of those with kinks give each
// side what PyTorch gives at the kink itself.

// clang-format off
#define EG_ACTIVATION_OPS(X)                                                                                           \
  X(quick_gelu,  "y = x / (1 + e^(-1.702 x))",    InDouble<QuickGelu>(d, x, p), x * reference::sigmoid(1.702 * x),     \
    anywhere, x(), silu_backward(affine(x, 1.702, 0.0), g), 30)                                                        \
  X(log_sigmoid, "y = -ln(1 + e^-x)",             InDouble<LogSigmoid>(d, x, p), -std::log1p(std::exp(-x)),            \
    anywhere, x(), mul(g, sigmoid(neg(x))), 50)                                                                        \
  X(mish,        "y = x tanh(ln(1 + e^x))",       InDouble<Mish>(d, x, p), x * std::tanh(std::log1p(std::exp(x))),     \
    anywhere, x(), mish_gradient(x, g), 35)                                                                            \
  X(hardswish,   "y = x clamp(x + 3, 0, 6) / 6",  hn::Mul(x, HardSigmoid(d, x)),                                       \
    x * std::clamp(x + 3.0, 0.0, 6.0) / 6.0, spread, x(), hardswish_backward(x, g), 5)                                 \
  X(hardsigmoid, "y = clamp(x + 3, 0, 6) / 6",    HardSigmoid(d, x), std::clamp(x + 3.0, 0.0, 6.0) / 6.0,              \
    spread, x(), where(logical_and(gt(x, -3.0), lt(x, 3.0)), affine(g, 1.0 / 6.0, 0.0), zero_like(g)), 4)

#define EG_PARAMETRIC_ACTIVATION_OPS(X)                                                                                \
  X(clamp,      "y = min(max(x, min), max)",      detail::AtMost(detail::AtLeast(x, p[0]), p[1]),                      \
    std::min(std::max(x, p[0]), p[1]), anywhere, x(),                                                                  \
    where(logical_and(ge(x, p[0]), le(x, p[1])), g, zero_like(g)), 2, clamp_attributes)                                \
  X(hardtanh,   "y = min(max(x, min_val), max_val)", detail::AtMost(detail::AtLeast(x, p[0]), p[1]),                   \
    std::min(std::max(x, p[0]), p[1]), anywhere, x(),                                                                  \
    where(logical_and(gt(x, p[0]), lt(x, p[1])), g, zero_like(g)), 2, hardtanh_attributes)                             \
  X(leaky_relu, "y = x for x > 0, else negative_slope x", hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Mul(x, p[0])), \
    x > 0.0 ? x : p[0] * x, off_zero, x(), leaky_relu_gradient(x, g, p[0]), 2, leaky_relu_attributes)                  \
  X(elu,        "y = x for x > 0, else alpha (e^x - 1)", InDouble<Elu>(d, x, p), x > 0.0 ? x : p[0] * std::expm1(x),   \
    off_zero, x(), elu_gradient(x, g, p[0]), 25, elu_attributes)                                                       \
  X(softplus,   "y = ln(1 + e^(beta x)) / beta, x where beta x > threshold", InDouble<Softplus>(d, x, p),              \
    p[0] * x > p[1] ? x : std::log1p(std::exp(p[0] * x)) / p[0], anywhere, x(),                                        \
    softplus_gradient(x, g, p[0], p[1]), 50, softplus_attributes)
// clang-format on
