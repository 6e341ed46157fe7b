// Pointwise rows against the same formulas in double (f32 rows) and long double (f64 rows).

#include "core/call.h"
#include "core/ops/list.h"
#include "core/reduction.h"
#include "core/registry.h"
#include "unit/core_ulp.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numbers>

namespace eg::test {
namespace {

using Narrow = double (*)(double a, double b, const Attrs& p);
using Wide = long double (*)(long double a, long double b, const Attrs& p);

struct Truth {
  template <class F>
  Truth(std::string_view row, F f, double f32, double f64, Unit u = Unit::ulp, double least = -INFINITY,
        double most = INFINITY)
      : name(row), narrow(f), wide(f), f32_bound(f32), f64_bound(f64), unit(u), low(least), high(most) {}
  std::string_view name;
  Narrow narrow;
  Wide wide;
  double f32_bound, f64_bound;
  Unit unit;
  double low, high; ///< of the first input
};

template <class R> constexpr R root_of_half = std::numbers::sqrt2_v<R> / 2;
template <class R> constexpr R density_at_0 = std::numbers::inv_sqrtpi_v<R>* root_of_half<R>;
template <class R> R sigmoid(R x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
template <class R> R log_sigmoid(R x) { return x >= 0 ? -std::log1p(std::exp(-x)) : x - std::log1p(std::exp(x)); }
template <class R> R cdf(R x) { return std::erfc(-x * root_of_half<R>) / 2; }
template <class R> R density(R x) { return std::exp(-x * x / 2) * density_at_0<R>; }
/// x f where f is 0 far to the left.
template <class R> R times(R x, R f) { return f == 0 ? R(0) : x * f; }
template <class R> R gelu(R x) { return times(x, cdf(x)); }
template <class R> R gelu_slope(R x) { return cdf(x) + times(x, density(x)); }
template <class R> R twice_u(R x) {
  return 2 * R(std::sqrt(2 * std::numbers::inv_pi_v<R>)) * (x + R(0.044715L) * x * x * x);
}
template <class R> R gelu_tanh(R x) { return times(x, sigmoid(twice_u(x))); }
template <class R> R gelu_tanh_slope(R x) {
  const R c = std::clamp<R>(x, -40, 40);
  const R s = sigmoid(twice_u(c));
  const R u2 = 2 * R(std::sqrt(2 * std::numbers::inv_pi_v<R>)) * (1 + 3 * R(0.044715L) * c * c);
  return s + c * s * sigmoid(-twice_u(c)) * u2;
}
template <class R> R silu(R x) { return times(x, sigmoid(x)); }
template <class R> R silu_slope(R x) { return sigmoid(x) + times(x, sigmoid(x) * sigmoid(-x)); }
template <class R> R relu(R x) { return x > 0 ? x : R(0); }
template <class R> R remainder(R a, R b) {
  const R r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <class R> R softplus(R x, R beta, R threshold) {
  const R z = beta * x;
  return z > threshold ? x : (std::max(z, R(0)) + std::log1p(std::exp(-std::abs(z)))) / beta;
}
template <class R> R huber(R x, R beta) { return std::abs(x) < beta ? x * x / (2 * beta) : std::abs(x) - beta / 2; }

#define EG_UNARY(EXPRESSION) [](auto x, auto, const Attrs&) -> decltype(x) { return EXPRESSION; }
#define EG_SETTING(EXPRESSION) [](auto x, auto, const Attrs& p) -> decltype(x) { return EXPRESSION; }
#define EG_BINARY(EXPRESSION) [](auto a, auto b, const Attrs&) -> decltype(a) { return EXPRESSION; }

constexpr double inf = std::numeric_limits<double>::infinity();

/// Largest errors allowed; an elementary function beyond 4 needs a reason beside it.
const std::vector<Truth>& truths() {
  static const std::vector<Truth> all = {
      // one rounding
      {"neg", EG_UNARY(-x), 0.0, 0.0},
      {"abs", EG_UNARY(std::abs(x)), 0.0, 0.0},
      {"sign", EG_UNARY(decltype(x)((x > 0) - (x < 0))), 0.0, 0.0},
      {"floor", EG_UNARY(std::floor(x)), 0.0, 0.0},
      {"ceil", EG_UNARY(std::ceil(x)), 0.0, 0.0},
      {"trunc", EG_UNARY(std::trunc(x)), 0.0, 0.0},
      {"round", EG_UNARY(std::nearbyint(x)), 0.0, 0.0},
      {"relu", EG_UNARY(relu(x)), 0.0, 0.0},
      {"sqrt", EG_UNARY(std::sqrt(x)), 0.51, 0.51},
      {"square", EG_UNARY(x * x), 0.51, 0.51},
      {"reciprocal", EG_UNARY(1 / x), 0.51, 0.51},
      {"add", EG_BINARY(a + b), 0.51, 0.51},
      {"sub", EG_BINARY(a - b), 0.51, 0.51},
      {"mul", EG_BINARY(a * b), 0.51, 0.51},
      {"div", EG_BINARY(a / b), 0.51, 0.51},
      {"minimum", EG_BINARY(std::min(a, b)), 0.0, 0.0},
      {"maximum", EG_BINARY(std::max(a, b)), 0.0, 0.0},
      {"fmod", EG_BINARY(std::fmod(a, b)), 0.0, 0.0},
      {"clamp", EG_SETTING(std::clamp(x, decltype(x)(p.real("min")), decltype(x)(p.real("max")))), 0.51, 0.0},
      {"hardtanh", EG_SETTING(std::clamp(x, decltype(x)(p.real("min_val")), decltype(x)(p.real("max_val")))), 0.51,
       0.0},
      {"remainder", EG_BINARY(remainder(a, b)), 0.51, 0.51},
      {"relu_backward", EG_BINARY(a > 0 ? b : decltype(a)(0)), 0.0, 0.0},
      {"reglu", EG_BINARY(relu(a) * b), 0.51, 0.51},
      // a few roundings, of the attribute among them
      {"leaky_relu", EG_SETTING(x > 0 ? x : x * decltype(x)(p.real("negative_slope"))), 1.5, 0.51},
      {"hardsigmoid", EG_UNARY(std::clamp<decltype(x)>(x + 3, 0, 6) / 6), 1.5, 1.5},
      {"hardswish", EG_UNARY(x * (std::clamp<decltype(x)>(x + 3, 0, 6) / 6)), 2.5, 2.5},
      {"huber_slope", EG_SETTING(std::clamp<decltype(x)>(x / decltype(x)(p.real("beta")), -1, 1)), 1.5, 1.5},
      {"huber", EG_SETTING(huber(x, decltype(x)(p.real("beta")))), 1.5, 1.5},
      // elementary functions
      {"rsqrt", EG_UNARY(1 / std::sqrt(x)), 1.5, 1.5},
      {"exp", EG_UNARY(std::exp(x)), 1.0, 1.0},
      {"exp2", EG_UNARY(std::exp2(x)), 1.0, 1.0},
      {"expm1", EG_UNARY(std::expm1(x)), 1.0, 2.0},
      {"log", EG_UNARY(std::log(x)), 1.0, 1.0},
      {"log2", EG_UNARY(std::log2(x)), 1.0, 1.0},
      {"log1p", EG_UNARY(std::log1p(x)), 1.0, 2.0},
      {"sin", EG_UNARY(std::sin(x)), 1.0, 1.0},
      {"cos", EG_UNARY(std::cos(x)), 1.0, 1.0},
      {"tan", EG_UNARY(std::tan(x)), 1.0, 1.0},
      {"atan", EG_UNARY(std::atan(x)), 1.0, 1.0},
      {"asin", EG_UNARY(std::asin(x)), 1.0, 1.0},
      {"acos", EG_UNARY(std::acos(x)), 1.0, 1.0},
      {"sinh", EG_UNARY(std::sinh(x)), 1.0, 2.0},
      {"cosh", EG_UNARY(std::cosh(x)), 1.0, 2.0},
      {"asinh", EG_UNARY(std::asinh(x)), 1.0, 2.0},
      {"acosh", EG_UNARY(std::acosh(x)), 1.0, 2.5},
      {"atanh", EG_UNARY(std::atanh(x)), 1.0, 2.0},
      {"log10", EG_UNARY(std::log10(x)), 1.0, 2.0},
      {"atan2", EG_BINARY(std::atan2(a, b)), 1.0, 1.0},
      {"erf", EG_UNARY(std::erf(x)), 1.0, 1.5},
      {"erfc", EG_UNARY(std::erfc(x)), 1.0, 3.5},
      {"tanh", EG_UNARY(std::tanh(x)), 3.0, 3.0},
      {"sigmoid", EG_UNARY(sigmoid(x)), 3.0, 3.0},
      {"log_sigmoid", EG_UNARY(log_sigmoid(x)), 1.0, 2.5},
      {"xlogx", EG_UNARY(x == 0 ? x : x * std::log(x)), 1.0, 2.0},
      {"elu", EG_SETTING(x > 0 ? x : decltype(x)(p.real("alpha")) * std::expm1(x)), 1.0, 2.5},
      {"softplus", EG_SETTING(softplus(x, decltype(x)(p.real("beta")), decltype(x)(p.real("threshold")))), 1.0, 4.0},
      {"pow_scalar", EG_SETTING(std::pow(x, decltype(x)(p.real("exponent")))), 1.0, 1.0},
      {"pow", EG_BINARY(std::pow(a, b)), 1.0, 1.0},
      // activations: far to the left, where the value runs out, an error of the argument of exp counts many times over,
      // and a subnormal gate has few digits; against 1 the errors are below 4 (core_pointwise_test)
      {"gelu", EG_UNARY(gelu(x)), 80.0, 32.0},
      {"gelu_tanh", EG_UNARY(gelu_tanh(x)), 256.0, 1400.0},
      {"silu", EG_UNARY(silu(x)), 80.0, 512.0},
      {"quick_gelu", EG_UNARY(times(x, sigmoid(decltype(x)(1.702) * x))), 1.0, 4.0},
      {"mish", EG_UNARY(x * std::tanh(-log_sigmoid(-x))), 1.0, 4.0},
      {"glu", EG_BINARY(sigmoid(a) * b), 4.0, 4.0},
      {"swiglu", EG_BINARY(silu(a) * b), 160.0, 800.0},
      {"geglu", EG_BINARY(gelu(a) * b), 128.0, 64.0},
      // sums that cross 0, against what they are multiplied with
      {"affine", EG_SETTING(decltype(x)(p.real("scale")) * x + decltype(x)(p.real("shift"))), 0.51, 0.51},
      {"tanh_backward", EG_BINARY((1 - a) * (1 + a) * b), 2.0, 2.0, Unit::ulp_of_g, -1.0, 1.0},
      {"sigmoid_backward", EG_BINARY(a * (1 - a) * b), 2.0, 2.0, Unit::ulp_of_g, 0.0, 1.0},
      {"gelu_backward", EG_BINARY(gelu_slope(a) * b), 4.0, 4.0, Unit::ulp_of_g},
      {"gelu_tanh_backward", EG_BINARY(gelu_tanh_slope(a) * b), 4.0, 4.0, Unit::ulp_of_g},
      {"silu_backward", EG_BINARY(silu_slope(a) * b), 4.0, 4.0, Unit::ulp_of_g},
  };
  return all;
}

#undef EG_UNARY
#undef EG_SETTING
#undef EG_BINARY

/// Finite numbers of all exponents and both signs, evenly among the bit patterns, then densely around 0.
template <class T> std::vector<T> sweep(std::uint64_t patterns) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  std::vector<T> x;
  const Bits step = std::numeric_limits<Bits>::max() / static_cast<Bits>(patterns);
  for (std::uint64_t i = 0; i <= patterns; ++i)
    if (const T value = std::bit_cast<T>(static_cast<Bits>(step * static_cast<Bits>(i))); std::isfinite(value))
      x.push_back(value);
  for (const double reach : {1.25, 20.0, 120.0, 800.0}) {
    const std::uint64_t count = patterns / 16;
    for (std::uint64_t i = 0; i <= count; ++i)
      x.push_back(static_cast<T>(reach * (2.0 * static_cast<double>(i) / static_cast<double>(count) - 1.0)));
  }
  return x;
}

/// Second operands: other exponents than the first ones', or near 1 where they are a factor of a slope or a gate.
template <class T> std::vector<T> second_operands(const std::vector<T>& x, bool near_1) {
  std::vector<T> b(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    b[i] = x[i * 7919 % x.size()];
    if (near_1 || i % 3 == 0) b[i] = static_cast<T>(1.0 + static_cast<double>(i % 1024) / 1024.0);
  }
  return b;
}

/// Without fused products an error is that of the product, which counts many times over where the sum crosses 0.
double floor_of(const OpDef& op, Reduction reduction, const Attrs& p) {
  return &op == &affine_op && reduction == Reduction::exact ? std::abs(p.real("shift")) : 0.0;
}

/// The largest errors in ordinary and in exact mode.
template <class T> std::array<double, 2> largest_errors(const OpDef& op, const Truth& truth, std::string& worst) {
  const std::vector<T> a = sweep<T>(sizeof(T) == 4 ? 1000003 : 200003);
  const bool gated = &op == &glu_op || &op == &reglu_op || &op == &swiglu_op || &op == &geglu_op;
  const std::vector<T> b = second_operands(a, truth.unit == Unit::ulp_of_g || gated);
  const Shape shape = {static_cast<std::int64_t>(a.size())};
  std::vector<Tensor> in = {Tensor::from(a, shape)};
  if (op.inputs.size() > 1) in.push_back(Tensor::from(b, shape));
  const Attrs p = completed_attributes(op, measurable_samples(op, dtype_of<T>).front().attrs);
  constexpr std::array modes = {Reduction::fast, Reduction::exact};
  std::array<std::vector<T>, 2> y;
  for (std::size_t m = 0; m < modes.size(); ++m) {
    const ReductionScope mode(modes[m]);
    y[m] = call(op, in, p).front().template to_vector<T>();
  }
  std::array<double, 2> largest = {};
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] >= truth.low && a[i] <= truth.high)) continue;
    const long double exact =
        sizeof(T) == 4 ? static_cast<long double>(truth.narrow(a[i], b[i], p)) : truth.wide(a[i], b[i], p);
    for (std::size_t m = 0; m < modes.size(); ++m) {
      const long double floor = truth.unit == Unit::ulp_of_g ? std::abs(b[i]) : floor_of(op, modes[m], p);
      const double error = ulp_error(y[m][i], exact, floor);
      if (!(error > largest[m])) continue;
      if (error > std::max(largest[0], largest[1]))
        worst = fmt::format("{} {}{}: {:.9g}, {:.9g} gives {:.9g} instead of {:.9g}: {:.2f}", op.name,
                            eg::name_of(dtype_of<T>), m == 1 ? " in exact mode" : "", a[i], b[i], y[m][i],
                            static_cast<double>(exact), error);
      largest[m] = error;
    }
  }
  return largest;
}

} // namespace

std::string_view name_of(Unit unit) {
  switch (unit) {
  case Unit::ulp:
    return "ULP";
  case Unit::ulp_of_g:
    return "ULP of g";
  case Unit::terms:
    return "u K Σ";
  case Unit::largest:
    return "u max";
  case Unit::none:
    return "bits";
  }
  return "";
}

template <class T> double ulp_error(T y, long double exact, long double floor) {
  constexpr T most = std::numeric_limits<T>::max();
  constexpr T infinity = std::numeric_limits<T>::infinity();
  if (std::isnan(exact) || std::isnan(y)) return std::isnan(exact) && std::isnan(y) ? 0.0 : inf;
  const long double size = std::max(std::abs(exact), floor);
  const T rounded = static_cast<T>(size);
  if (std::isinf(rounded) && static_cast<long double>(y) == std::copysign(static_cast<long double>(infinity), exact))
    return 0.0; // beyond the largest number
  const T below = std::max(std::min(rounded, most), std::numeric_limits<T>::denorm_min());
  const T ulp = below == most ? most - std::nextafter(most, T{0}) : std::nextafter(below, infinity) - below;
  // An infinity counts as the number after the largest one.
  const long double value = std::isinf(y) ? std::copysign(static_cast<long double>(most) + ulp, y) : y;
  return static_cast<double>(std::abs(value - exact) / ulp);
}
template double ulp_error<float>(float, long double, long double);
template double ulp_error<double>(double, long double, long double);

std::optional<Accuracy> pointwise_accuracy(const OpDef& op) {
  const auto truth = std::find_if(truths().begin(), truths().end(), [&](const Truth& t) { return t.name == op.name; });
  if (truth == truths().end()) return std::nullopt;
  Accuracy found;
  found.unit = truth->unit;
  found.f32_bound = truth->f32_bound;
  found.f64_bound = truth->f64_bound;
  std::string worst32;
  std::string worst64;
  const auto f32 = largest_errors<float>(op, *truth, worst32);
  const auto f64 = largest_errors<double>(op, *truth, worst64);
  found.f32 = f32[0], found.exact_f32 = f32[1];
  found.f64 = f64[0], found.exact_f64 = f64[1];
  found.exact_slack = &op == &affine_op ? 0.5 : 0.0; // its product is rounded as well
  found.worst = worst32 + "; " + worst64;
  return found;
}

} // namespace eg::test
