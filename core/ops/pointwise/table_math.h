#pragma once
// Lists elementary functions and step functions. Columns as in table.h; a step's last column says why its gradient is
// zero. The ops of the scalar tables run a double function element by element: Math is the C library or, in exact mode,
// our own functions (scalar.h). In place of `vector` they have the value in double. Floats outside exact mode run in
// vectors of doubles where scalar_simd.cpp has the function.

// clang-format off
#define EG_MATH_OPS(X)                                                                                                 \
  X(abs,        "y = |x|",                        hn::Abs(x),             std::abs(x),        off_zero, x(),           \
    mul(g, sign(x)), 1)                                                                                                \
  X(square,     "y = x^2",                        hn::Mul(x, x),          x * x,              anywhere, x(),           \
    mul(affine(g, 2.0, 0.0), x), 1)                                                                                    \
  X(reciprocal, "y = 1 / x",                      Reciprocal(d, x),       1.0 / x,            off_zero, y(),           \
    neg(mul(g, mul(y, y))), 1)                                                                                         \
  X(expm1,      "y = e^x - 1",                    InDouble<Expm1>(d, x, p),  std::expm1(x),      anywhere, x(),        \
    mul(g, exp(x)), 25)                                                                                                \
  X(log1p,      "y = ln(1 + x)",                  InDouble<Log1p>(d, x, p),  std::log1p(x),      positive, x(),        \
    div(g, affine(x, 1.0, 1.0)), 30)                                                                                   \
  X(xlogx,      "y = x ln x, 0 for 0",            InDouble<XLogX>(d, x, p),  reference::xlogx(x), positive, x(),       \
    mul(g, affine(log(x), 1.0, 1.0)), 22)

#define EG_STEP_OPS(X)                                                                                                 \
  X(sign,  "y = -1, 0 or 1, the sign of x",       Sign(d, x), static_cast<double>((x > 0.0) - (x < 0.0)), off_zero,    \
    "constant but for a step at 0")                                                                                    \
  X(floor, "y = largest integer <= x",            RoundDown(x),           std::floor(x),      anywhere,                \
    "constant but for steps at the integers")                                                                          \
  X(ceil,  "y = smallest integer >= x",           RoundUp(x),             std::ceil(x),       anywhere,                \
    "constant but for steps at the integers")                                                                          \
  X(trunc, "y = x without its fraction",          RoundToZero(x),         std::trunc(x),      anywhere,                \
    "constant but for steps at the integers")                                                                          \
  X(round, "y = nearest integer to x, the even one of two", RoundToEven(d, x), std::nearbyint(x), anywhere,            \
    "constant but for steps halfway between integers")

#define EG_SCALAR_OPS(X)                                                                                               \
  X(exp2, "y = 2^x",                              Math::exp2(x),  std::exp2(x),                anywhere, y(),          \
    mul(affine(g, std::numbers::ln2, 0.0), y), 20)                                                                     \
  X(log2, "y = log x / log 2",                    Math::log2(x),  std::log2(x),                positive, x(),          \
    div(affine(g, std::numbers::log2e, 0.0), x), 25)                                                                   \
  X(sin,  "y = sin x, x in radians",              Math::sin(x),   std::sin(x),                 anywhere, x(),          \
    mul(g, cos(x)), 25)                                                                                                \
  X(cos,  "y = cos x, x in radians",              Math::cos(x),   std::cos(x),                 anywhere, x(),          \
    neg(mul(g, sin(x))), 25)                                                                                           \
  X(tan,  "y = tan x, x in radians",              Math::tan(x),   std::tan(x),                 within_one, y(),        \
    mul(g, affine(square(y), 1.0, 1.0)), 35)                                                                           \
  X(atan, "y = arctan x in radians",              Math::atan(x),  std::atan(x),                anywhere, x(),          \
    div(g, affine(square(x), 1.0, 1.0)), 30)                                                                           \
  X(asin, "y = arcsin x in radians, NaN beyond -1 and 1", Math::asin(x), std::asin(x),         within_nine_tenths, x(),\
    mul(g, rsqrt(one_minus_square(x))), 30)                                                                            \
  X(acos, "y = arccos x in radians, NaN beyond -1 and 1", Math::acos(x), std::acos(x),         within_nine_tenths, x(),\
    neg(mul(g, rsqrt(one_minus_square(x)))), 30)                                                                       \
  X(sinh, "y = (e^x - e^-x) / 2",                 Math::sinh(x),  std::sinh(x),                anywhere, x(),          \
    mul(g, cosh(x)), 30)                                                                                               \
  X(cosh, "y = (e^x + e^-x) / 2",                 Math::cosh(x),  std::cosh(x),                anywhere, x(),          \
    mul(g, sinh(x)), 30)                                                                                               \
  X(asinh, "y = ln(x + sqrt(x^2 + 1))",           Math::asinh(x), std::asinh(x),               anywhere, x(),          \
    mul(g, asinh_slope(x)), 35)                                                                                        \
  X(acosh, "y = ln(x + sqrt(x^2 - 1)), NaN below 1", Math::acosh(x), std::acosh(x),            above_one, x(),         \
    mul(g, mul(rsqrt(affine(x, 1.0, -1.0)), rsqrt(affine(x, 1.0, 1.0)))), 35)                                          \
  X(atanh, "y = ln((1 + x) / (1 - x)) / 2, NaN beyond -1 and 1", Math::atanh(x), std::atanh(x), within_nine_tenths,    \
    x(), div(g, one_minus_square(x)), 35)                                                                              \
  X(log10, "y = log x / log 10",                  Math::log10(x), std::log10(x),               positive, x(),          \
    div(affine(g, std::numbers::log10e, 0.0), x), 25)                                                                  \
  X(erf,  "y = 2 / sqrt(pi) int_0^x e^(-t^2) dt", Math::erf(x),   std::erf(x),                 anywhere, x(),          \
    mul(g, bell(x)), 40)                                                                                               \
  X(erfc, "y = 1 - erf x, exact for large x",     Math::erfc(x),  std::erfc(x),                anywhere, x(),          \
    neg(mul(g, bell(x))), 40)

#define EG_SCALAR_PARAMETRIC_OPS(X)                                                                                    \
  X(pow_scalar, "y = x^exponent", p[0] == 2.0 ? x * x : Math::pow(x, p[0]), std::pow(x, p[0]), positive, x(),          \
    pow_gradient(x, g, p[0]), 40, pow_attributes)

#define EG_MATH_BINARY_OPS(X)                                                                                          \
  X(minimum, "y = min(a, b)", "a", "b", arithmetic_of_both, Smaller(a, b), a < b ? a : b, anywhere, anywhere,          \
    a() | b(), share(gt(a, b), eq(a, b), g), share(gt(b, a), eq(a, b), g), 1)                                          \
  X(maximum, "y = max(a, b)", "a", "b", arithmetic_of_both, Larger(a, b), a > b ? a : b, anywhere, anywhere,           \
    a() | b(), share(lt(a, b), eq(a, b), g), share(lt(b, a), eq(a, b), g), 1)                                          \
  X(logit_loss, "y = -(t log s(x) + (1 - t) log s(-x)), s(x) = 1 / (1 + e^-x)", "x", "t", same_shape_everywhere,       \
    LogitLoss(d, a, b), b * std::log1p(std::exp(-a)) + (1.0 - b) * std::log1p(std::exp(a)), anywhere, anywhere,        \
    a() | b(), logit_loss_gradient(a, b, g), neg(mul(g, a)), 100)

#define EG_SCALAR_BINARY_OPS(X)                                                                                        \
  X(fmod,      "y = a - trunc(a / b) b, the sign of a", "a", "b", arithmetic_of_both, std::fmod(a, b), std::fmod(a, b),\
    dividend, divisor, a() | b(), g, neg(mul(g, trunc(div(a, b)))), 20)                                                \
  X(remainder, "y = a - floor(a / b) b, the sign of b", "a", "b", arithmetic_of_both, scalar::remainder(a, b),         \
    a - std::floor(a / b) * b, dividend, divisor, a() | b(), g, neg(mul(g, floor(div(a, b)))), 20)                     \
  X(atan2,     "y = angle of the point (b, a), in radians from -pi to pi", "a", "b", broadcast_of_both,                \
    Math::atan2(a, b), std::atan2(a, b), off_zero, off_zero, a() | b(), atan2_slope(b, a, b, g),                       \
    neg(atan2_slope(a, a, b, g)), 40)                                                                                  \
  X(pow,       "y = a^b", "a", "b", arithmetic_of_both, Math::pow(a, b), std::pow(a, b), positive, anywhere,           \
    a() | b() | y(), pow_base_gradient(a, b, g), pow_exponent_gradient(a, b, y, g), 40)

// Steps of two numbers; the last column says why the gradient is zero.
#define EG_SCALAR_BINARY_STEP_OPS(X)                                                                                   \
  X(floor_divide, "y = largest integer <= a / b", "a", "b", arithmetic_of_both, scalar::floor_divide(a, b),            \
    std::floor(a / b), dividend, divisor, "constant but for steps where a / b is an integer")
// clang-format on
