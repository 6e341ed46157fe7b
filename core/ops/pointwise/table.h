#pragma once
// Lists arithmetic and the common activations, one op a table line. The kernels (pointwise_simd.cpp), the op
// definitions and the functions (pointwise.cpp) are made from these tables: a new op is a new line here or in
// table_math.h or table_activations.h, its name in core/ops/list.h and its declaration in core/ops.h.
//
// Columns of the unary tables
//   name         also the function's name
//   mathematics  one line
//   vector       the value as a vector: an expression in the tag d, the vector x and the attributes p[i]
//   reference    the value in double: an expression in x and p[i]
//   domain       the range of the samples: anywhere, positive, off_zero (a kink at 0)
//   saves        what the rule reads: nothing(), x(), y()
//   rule         gradient of x: an expression in the tensors x, y, the cotangent g and the attributes p[i]
//   flops        per element, roughly
//   attributes   (parametric only) a constexpr list from pointwise.cpp; p[i] is the i-th of them

// clang-format off
#define EG_UNARY_OPS(X)                                                                                                \
  X(neg,       "y = -x",                          hn::Neg(x),       -x,                       anywhere, nothing(),     \
    neg(g), 1)                                                                                                         \
  X(exp,       "y = e^x",                         Exp(d, x),        std::exp(x),              anywhere, y(),           \
    mul(g, y), 20)                                                                                                     \
  X(log,       "y = ln x",                        Log(d, x),        std::log(x),              positive, x(),           \
    div(g, x), 25)                                                                                                     \
  X(sqrt,      "y = x^(1/2)",                     hn::Sqrt(x),      std::sqrt(x),             positive, y(),           \
    div(affine(g, 0.5, 0.0), y), 1)                                                                                    \
  X(rsqrt,     "y = x^(-1/2)",                    ReciprocalSqrt(d, x), 1.0 / std::sqrt(x),   positive, y(),           \
    rsqrt_gradient(y, g), 2)                                                                                           \
  X(tanh,      "y = tanh x",                      Tanh(d, x),       std::tanh(x),             anywhere, y(),           \
    tanh_backward(y, g), 25)                                                                                           \
  X(sigmoid,   "y = 1 / (1 + e^-x)",              Sigmoid(d, x),    reference::sigmoid(x),    anywhere, y(),           \
    sigmoid_backward(y, g), 22)                                                                                        \
  X(relu,      "y = max(x, 0)",                   Relu(d, x),       x < 0.0 ? 0.0 : x,        off_zero, y(),           \
    relu_backward(y, g), 1)                                                                                            \
  X(gelu,      "y = x Phi(x), Phi(x) = (1 + erf(x / sqrt 2)) / 2", Gelu(d, x), x * reference::normal_cdf(x),           \
    anywhere, x(), gelu_backward(x, g), 35)                                                                            \
  X(gelu_tanh, "y = x (1 + tanh u) / 2, u = sqrt(2/pi) (x + 0.044715 x^3)", GeluTanh(d, x), reference::gelu_tanh(x),   \
    anywhere, x(), gelu_tanh_backward(x, g), 28)                                                                       \
  X(silu,      "y = x / (1 + e^-x)",              Silu(d, x),       x * reference::sigmoid(x), anywhere, x(),          \
    silu_backward(x, g), 23)

#define EG_PARAMETRIC_OPS(X)                                                                                           \
  X(affine,    "y = scale x + shift",             MulAdd(d, x, p[0], p[1]), p[0] * x + p[1], anywhere, nothing(),      \
    affine(g, p[0], 0.0), 2, affine_attributes)

// Columns of the binary table
//   name, mathematics, the names of the two inputs
//   shapes       broadcast_of_both, or same_shape_everywhere; arithmetic_of_both and quotient_of_both take whole
//                numbers, too (whole.cpp)
//   vector       an expression in d, a, b
//   reference    an expression in the doubles a, b
//   domain a, b  the ranges of the samples
//   saves        nothing() or a sum of a(), b(), y()
//   rule a, b    gradients: expressions in the tensors a, b, y and the cotangent g; of the output's shape, the engine
//                sums broadcast axes away
//   flops
#define EG_BINARY_OPS(X)                                                                                               \
  X(add, "y = a + b", "a", "b", arithmetic_of_both, hn::Add(a, b), a + b, anywhere, anywhere, nothing(),               \
    g, g, 1)                                                                                                           \
  X(sub, "y = a - b", "a", "b", arithmetic_of_both, hn::Sub(a, b), a - b, anywhere, anywhere, nothing(),               \
    g, neg(g), 1)                                                                                                      \
  X(mul, "y = a b", "a", "b", arithmetic_of_both, hn::Mul(a, b), a * b, anywhere, anywhere, a() | b(),                 \
    mul(g, b), mul(g, a), 1)                                                                                           \
  X(div, "y = a / b", "a", "b", quotient_of_both, hn::Div(a, b), a / b, anywhere, off_zero, b() | y(),                 \
    div(g, b), neg(div(mul(g, y), b)), 1)                                                                              \
  X(tanh_backward, "y = g (1 - t^2), t = tanh x", "t", "g", same_shape_everywhere,                                     \
    NegMulAdd(d, hn::Mul(a, a), b, b), b * (1.0 - a * a), anywhere, anywhere, a() | b(),                               \
    mul(affine(mul(a, b), -2.0, 0.0), g), tanh_backward(a, g), 3)                                                      \
  X(sigmoid_backward, "y = g s (1 - s), s = sigmoid x", "s", "g", same_shape_everywhere,                               \
    SigmoidBackward(d, a, b), b * a * (1.0 - a), anywhere, anywhere, a() | b(),                                        \
    mul(mul(affine(a, -2.0, 1.0), b), g), sigmoid_backward(a, g), 3)                                                   \
  X(relu_backward, "y = g [r > 0], r = relu x", "r", "g", same_shape_everywhere,                                       \
    ReluBackward(d, a, b), a > 0.0 ? b : (a != a ? a : 0.0), off_zero, anywhere, a(),                                  \
    Tensor(), relu_backward(a, g), 1)                                                                                  \
  X(gelu_backward, "y = g (Phi(x) + x phi(x)), phi(x) = exp(-x^2/2) / sqrt(2 pi)", "x", "g", same_shape_everywhere,    \
    GeluBackward(d, a, b), b * (reference::normal_cdf(a) + a * reference::normal_density(a)), anywhere, anywhere,      \
    a() | b(), mul(mul(b, gelu_curvature(a)), g), gelu_backward(a, g), 40)                                             \
  X(gelu_tanh_backward, "y = g ((1 + tanh u) / 2 + x u' (1 - tanh^2 u) / 2), u = sqrt(2/pi) (x + 0.044715 x^3)",       \
    "x", "g", same_shape_everywhere, GeluTanhBackward(d, a, b), b * reference::gelu_tanh_slope(a), anywhere, anywhere, \
    a() | b(), mul(mul(b, gelu_tanh_curvature(a)), g), gelu_tanh_backward(a, g), 38)                                   \
  X(silu_backward, "y = g s (1 + x (1 - s)), s = sigmoid x", "x", "g", same_shape_everywhere,                          \
    SiluBackward(d, a, b), b * reference::silu_slope(a), anywhere, anywhere,                                           \
    a() | b(), mul(mul(b, silu_curvature(a)), g), silu_backward(a, g), 27)                                             \
  X(hardswish_backward, "y = g h, h = 0 for x < -3, 1 for x > 3, else x / 3 + 1 / 2", "x", "g", same_shape_everywhere, \
    HardswishBackward(d, a, b), b * reference::hardswish_slope(a), spread, anywhere,                                   \
    a() | b(), mul(mul(b, hardswish_curvature(a)), g), hardswish_backward(a, g), 5)
// clang-format on
