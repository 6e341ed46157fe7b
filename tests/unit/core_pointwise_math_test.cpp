// Elementary functions, activations, comparisons and selections: ULP over the whole range of the arguments against long
// double, specials, and the gradients at kinks.

#include "autograd/tape.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/simd/simd.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <functional>
#include <limits>
#include <string>

using eg::DType;
using eg::Tensor;

namespace {

using Real = long double;
using Function = std::function<Tensor(const Tensor&)>;
using Exact = std::function<Real(Real)>;

/// Numbers over the whole range of T from 0 to `most`: evenly spaced, at every power of two, subnormal; both signs.
template <class T> std::vector<T> arguments(double most, bool negative) {
  std::vector<T> x;
  const auto push = [&](T v) {
    if (!std::isfinite(v) || std::abs(v) > static_cast<T>(most)) return;
    x.push_back(v);
    if (negative) x.push_back(-v);
  };
  constexpr int count = 4000;
  for (const double top : {most, 1000.0, 100.0, 20.0, 4.0, 1.0, 0.01})
    if (top <= most)
      for (int i = 1; i <= count; ++i) push(static_cast<T>(top * (i - 0.37) / count));
  for (T p = std::numeric_limits<T>::denorm_min(); std::isfinite(p); p *= 2)
    for (const double m : {1.0, 1.1, 1.37, 1.5, 1.7, 1.99}) push(static_cast<T>(p * m));
  for (int i = 1; i < 300; ++i) push(std::numeric_limits<T>::denorm_min() * static_cast<T>(i * 7));
  return x;
}

struct Error {
  double ulp = 0.0;
  double at = 0.0;
};

/// Largest error in units of the last place of the exact value (subnormal ones included).
template <class T> Error largest_error(const Function& f, const Exact& exact, double most, bool negative) {
  const std::vector<T> x = arguments<T>(most, negative);
  const std::vector<T> y = f(Tensor::from<T>(x, {static_cast<std::int64_t>(x.size())})).template to_vector<T>();
  Error worst;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Real value = exact(static_cast<Real>(x[i]));
    const T nearest = static_cast<T>(value);
    double ulp = 0.0;
    if (std::isnan(nearest) || std::isinf(nearest) || std::isinf(y[i]) || std::isnan(y[i])) {
      const bool alike = (std::isnan(nearest) && std::isnan(y[i])) || nearest == y[i];
      const T largest = std::numeric_limits<T>::max(); // one beyond the largest may be rounded either way
      ulp = alike || (std::isinf(nearest) && std::abs(y[i]) == largest) ? 0.0 : 1e9;
    } else {
      const T size = std::abs(nearest);
      ulp = static_cast<double>(std::abs(static_cast<Real>(y[i]) - value) /
                                static_cast<Real>(size < std::numeric_limits<T>::max()
                                                      ? std::nextafter(size, std::numeric_limits<T>::infinity()) - size
                                                      : size - std::nextafter(size, T{0})));
    }
    if (ulp > worst.ulp) worst = {ulp, static_cast<double>(x[i])};
  }
  return worst;
}

Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }
/// ln(1 + e^x)
Real soft(Real x) { return std::max(x, Real{0}) + std::log1p(std::exp(-std::abs(x))); }
Real mish(Real x) {
  const Real e = std::exp(std::min(x, Real{100}));
  return x * (e * (e + 2)) / (e * (e + 2) + 2);
}

struct Row {
  const char* name;
  Function f;
  Exact exact;
  bool negative = true;
  double most = INFINITY;
};

std::vector<Row> rows() {
  const auto one = [](Tensor (*f)(const Tensor&)) { return Function(f); };
  return {
      {"abs", one(eg::abs), [](Real x) { return std::abs(x); }},
      {"square", one(eg::square), [](Real x) { return x * x; }},
      {"reciprocal", one(eg::reciprocal), [](Real x) { return 1 / x; }},
      {"sign", one(eg::sign), [](Real x) { return Real((x > 0) - (x < 0)); }},
      {"floor", one(eg::floor), [](Real x) { return std::floor(x); }},
      {"ceil", one(eg::ceil), [](Real x) { return std::ceil(x); }},
      {"trunc", one(eg::trunc), [](Real x) { return std::trunc(x); }},
      {"round", one(eg::round), [](Real x) { return std::nearbyint(x); }},
      {"expm1", one(eg::expm1), [](Real x) { return std::expm1(x); }},
      {"log1p", one(eg::log1p), [](Real x) { return std::log1p(x); }, false},
      {"log1p above -1", one(eg::log1p), [](Real x) { return std::log1p(x); }, true, 0.999},
      {"xlogx", one(eg::xlogx), [](Real x) { return x == 0 ? Real{0} : x * std::log(x); }, false},
      {"exp2", one(eg::exp2), [](Real x) { return std::exp2(x); }},
      {"log2", one(eg::log2), [](Real x) { return std::log2(x); }, false},
      {"sin", one(eg::sin), [](Real x) { return std::sin(x); }, true, 1e5},
      {"cos", one(eg::cos), [](Real x) { return std::cos(x); }, true, 1e5},
      {"tan", one(eg::tan), [](Real x) { return std::tan(x); }, true, 1e5},
      {"atan", one(eg::atan), [](Real x) { return std::atan(x); }},
      {"erf", one(eg::erf), [](Real x) { return std::erf(x); }},
      {"erfc", one(eg::erfc), [](Real x) { return std::erfc(x); }},
      {"quick_gelu", one(eg::quick_gelu), [](Real x) { return x * sigmoid(static_cast<Real>(1.702) * x); }, true, 1e4},
      {"log_sigmoid", one(eg::log_sigmoid), [](Real x) { return -soft(-x); }},
      {"mish", one(eg::mish), mish, true, 1e4},
      {"hardsigmoid", one(eg::hardsigmoid), [](Real x) { return std::clamp(x + 3, Real{0}, Real{6}) / 6; }},
      {"hardswish", one(eg::hardswish), [](Real x) { return x * std::clamp(x + 3, Real{0}, Real{6}) / 6; }},
      {"elu", [](const Tensor& x) { return eg::elu(x, 1.3); },
       [](Real x) { return x > 0 ? x : static_cast<Real>(1.3) * std::expm1(x); }},
      {"leaky_relu", [](const Tensor& x) { return eg::leaky_relu(x, 0.01); },
       [](Real x) { return x > 0 ? x : static_cast<Real>(0.01) * x; }},
      {"softplus", [](const Tensor& x) { return eg::softplus(x, 1.0, 1e9); }, soft},
      {"softplus, beta 0.7", [](const Tensor& x) { return eg::softplus(x, 0.7, 1e9); },
       [](Real x) { return soft(static_cast<Real>(0.7) * x) / static_cast<Real>(0.7); }},
      {"pow 1.7", [](const Tensor& x) { return eg::pow(x, 1.7); },
       [](Real x) { return std::pow(x, static_cast<Real>(1.7)); }, false},
      {"pow 3", [](const Tensor& x) { return eg::pow(x, 3.0); }, [](Real x) { return x * x * x; }},
      {"pow 2", [](const Tensor& x) { return eg::pow(x, 2.0); }, [](Real x) { return x * x; }},
      {"fmod", [](const Tensor& x) { return eg::fmod(x, Tensor::full({}, 0.75, x.dtype())); },
       [](Real x) { return std::fmod(x, Real{0.75}); }},
  };
}

template <class T> T at(const Function& f, T x) { return f(Tensor::from<T>({x}, {1})).template data<T>()[0]; }
template <class T> T at(Tensor (*f)(const Tensor&), T x) { return at<T>(Function(f), x); }

template <class T> void check_specials() {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  constexpr T smallest = std::numeric_limits<T>::denorm_min();
  for (const Row& row : rows()) {
    CAPTURE(row.name);
    CHECK(std::isnan(at<T>(row.f, nan)));
  }
  CHECK(at<T>(eg::expm1, -infinity) == T{-1});
  CHECK(at<T>(eg::expm1, infinity) == infinity);
  CHECK(at<T>(eg::log1p, infinity) == infinity);
  CHECK(at<T>(eg::log1p, T{-1}) == -infinity);
  CHECK(std::isnan(at<T>(eg::log1p, T{-2})));
  for (const auto odd : {eg::expm1, eg::log1p, eg::sin, eg::tan, eg::atan, eg::erf, eg::floor, eg::trunc, eg::round}) {
    CHECK(std::signbit(at<T>(odd, T{-0.0})));
    CHECK_FALSE(std::signbit(at<T>(odd, T{0.0})));
  }
  for (const auto odd : {eg::expm1, eg::log1p, eg::sin, eg::tan, eg::atan}) CHECK(at<T>(odd, smallest) == smallest);
  CHECK(std::isnan(at<T>(eg::sin, infinity)));
  CHECK(std::isnan(at<T>(eg::cos, -infinity)));
  CHECK(at<T>(eg::erf, -infinity) == T{-1});
  CHECK(at<T>(eg::erfc, -infinity) == T{2});
  CHECK(at<T>(eg::log2, T{8}) == T{3});
  CHECK(at<T>(eg::exp2, T{10}) == T{1024});
  CHECK(at<T>(eg::reciprocal, T{-0.0}) == -infinity);
  CHECK(at<T>(eg::log_sigmoid, -infinity) == -infinity);
  CHECK(at<T>(eg::log_sigmoid, infinity) == T{0});
  CHECK(at<T>(eg::mish, infinity) == infinity);
  CHECK(at<T>(eg::quick_gelu, infinity) == infinity);
  const Function softplus = [](const Tensor& x) { return eg::softplus(x); };
  CHECK(at<T>(softplus, infinity) == infinity);
  CHECK(at<T>(softplus, -infinity) == T{0});
  const Function elu = [](const Tensor& x) { return eg::elu(x); };
  CHECK(at<T>(elu, -infinity) == T{-1});
  CHECK(at<T>(elu, std::numeric_limits<T>::max()) == std::numeric_limits<T>::max());
  // Halves go to the even neighbour.
  CHECK(at<T>(eg::round, T{0.5}) == T{0});
  CHECK(at<T>(eg::round, std::nextafter(T{0.5}, T{0})) == T{0});
  CHECK(at<T>(eg::round, T{1.5}) == T{2});
  CHECK(at<T>(eg::round, T{2.5}) == T{2});
  CHECK(at<T>(eg::round, T{-3.5}) == T{-4});
  CHECK(at<T>(eg::round, T{8388609}) == T{8388609});
  // Large arguments of sin: their remainder by pi/2 needs many digits of pi.
  for (const T x : {T{1e10F}, T{3.3e22F}, T{1.5e30F}, std::numeric_limits<T>::max()}) {
    CHECK(at<T>(eg::sin, x) == static_cast<T>(std::sin(static_cast<double>(x))));
    CHECK(at<T>(eg::cos, -x) == static_cast<T>(std::cos(static_cast<double>(x))));
  }
}

Tensor gradient_of(const Function& f, const Tensor& x) {
  eg::Tape tape;
  return tape.gradient(eg::sum(f(x)), {x}).front();
}

std::vector<double> list(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

} // namespace

TEST_CASE("functions of one number are accurate over their whole range") {
  INFO("vector target: ", eg::simd::target());
  for (const Row& row : rows()) {
    const Error narrow = largest_error<float>(row.f, row.exact, row.most, row.negative);
    const Error wide = largest_error<double>(row.f, row.exact, row.most, row.negative);
    CHECK_MESSAGE(narrow.ulp <= 2.0, std::string(row.name), ": ", narrow.ulp, " ULP at ", narrow.at);
    CHECK_MESSAGE(wide.ulp <= 4.0, std::string(row.name), " (f64): ", wide.ulp, " ULP at ", wide.at);
  }
}

TEST_CASE("functions of one number on NaN, infinities, signed zeros and subnormal numbers") {
  check_specials<float>();
  check_specials<double>();
}

TEST_CASE("minimum and maximum keep NaN and share the gradient at ties") {
  const double nan = NAN;
  const Tensor a = Tensor::from<double>({1, 2, 3, nan, 1}, {5});
  const Tensor b = Tensor::from<double>({2, 2, 1, 1, nan}, {5});
  const auto low = list(eg::minimum(a, b));
  const auto high = list(eg::maximum(a, b));
  CHECK(std::vector<double>(low.begin(), low.begin() + 3) == std::vector<double>{1, 2, 1});
  CHECK(std::vector<double>(high.begin(), high.begin() + 3) == std::vector<double>{2, 2, 3});
  for (const std::size_t i : {3U, 4U}) {
    CHECK(std::isnan(low[i]));
    CHECK(std::isnan(high[i]));
  }
  const Tensor c = a.slice(0, 0, 3);
  const Tensor d = b.slice(0, 0, 3);
  CHECK(list(gradient_of([&](const Tensor& x) { return eg::minimum(x, d); }, c)) == std::vector<double>{1, 0.5, 0});
  CHECK(list(gradient_of([&](const Tensor& x) { return eg::maximum(c, x); }, d)) == std::vector<double>{1, 0.5, 0});
}

TEST_CASE("gradients at kinks, bounds and zeros") {
  const Tensor x = Tensor::from<double>({-2, -1, 0, 1, 2}, {5});
  const auto at_x = [&](const Function& f) { return list(gradient_of(f, x)); };
  CHECK(at_x([](const Tensor& t) { return eg::abs(t); }) == std::vector<double>{-1, -1, 0, 1, 1});
  CHECK(at_x([](const Tensor& t) { return eg::clamp(t, -1, 1); }) == std::vector<double>{0, 1, 1, 1, 0});
  CHECK(at_x([](const Tensor& t) { return eg::hardtanh(t); }) == std::vector<double>{0, 0, 1, 0, 0});
  CHECK(at_x([](const Tensor& t) { return eg::leaky_relu(t, 0.25); }) == std::vector<double>{0.25, 0.25, 0.25, 1, 1});
  CHECK(at_x([](const Tensor& t) { return eg::elu(t, 2.0); })[2] == 2.0);
  CHECK(at_x([](const Tensor& t) { return t - eg::floor(t); }) == std::vector<double>{1, 1, 1, 1, 1});
  CHECK(at_x([](const Tensor& t) { return eg::pow(t, 0.0); }) == std::vector<double>{0, 0, 0, 0, 0});
  CHECK(at_x([](const Tensor& t) { return eg::pow(t, 2.0); }) == std::vector<double>{-4, -2, 0, 2, 4});
  const Tensor zero = Tensor::zeros({5}, DType::f64);
  CHECK(at_x([&](const Tensor& t) { return eg::pow(t, zero); }) == std::vector<double>{0, 0, 0, 0, 0});
  CHECK(list(gradient_of([&](const Tensor& t) { return eg::pow(zero, t); }, eg::abs(x))) ==
        std::vector<double>{0, 0, 0, 0, 0});
}

TEST_CASE("the unused side of a selection does not spoil second derivatives") {
  const Tensor x = Tensor::from<double>({-3, 800}, {2});
  for (const Function& f :
       {Function([](const Tensor& t) { return eg::elu(t); }), Function([](const Tensor& t) { return eg::softplus(t); }),
        Function([](const Tensor& t) { return eg::hardswish(t); })}) {
    eg::Tape outer;
    const Tensor first = gradient_of(f, x);
    const Tensor second = outer.gradient(eg::sum(first), {x}).front();
    for (const double v : list(second)) CHECK(std::isfinite(v));
  }
}

TEST_CASE("comparisons of numbers, whole numbers and NaN") {
  const Tensor a = Tensor::from<double>({1, 2, 3, NAN}, {4});
  CHECK(eg::lt(a, 2.0).to_vector<bool>() == std::vector<bool>{true, false, false, false});
  CHECK(eg::ge(a, 2.0).to_vector<bool>() == std::vector<bool>{false, true, true, false});
  CHECK(eg::ne(a, a).to_vector<bool>() == std::vector<bool>{false, false, false, true});
  CHECK(eg::eq(a, a).to_vector<bool>() == std::vector<bool>{true, true, true, false});
  const std::int64_t large = (std::int64_t{1} << 60) + 1; // two doubles would be equal
  const Tensor n = Tensor::from<std::int64_t>({large, large - 1}, {2});
  CHECK(eg::gt(n, n.slice(0, 1, 2)).to_vector<bool>() == std::vector<bool>{true, false});
  CHECK(eg::gt(n, 0.5).to_vector<bool>() == std::vector<bool>{true, true});
  CHECK(eg::logical_not(eg::isfinite(a)).to_vector<bool>() == std::vector<bool>{false, false, false, true});
}

TEST_CASE("where broadcasts all three, masked_fill and lerp are made of it") {
  const Tensor rows = Tensor::from<double>({1, -1}, {2, 1});
  const Tensor y = eg::where(eg::gt(rows, 0.0), Tensor::arange(3, DType::f64), Tensor::full({}, -1.0, DType::f64));
  CHECK(list(y) == std::vector<double>{0, 1, 2, -1, -1, -1});
  const Tensor ids = Tensor::arange(4);
  CHECK(eg::masked_fill(ids, eg::gt(ids, 1.0), -100).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{0, 1, -100, -100});
  const Tensor a = Tensor::full({3}, 0.1, DType::f32);
  const Tensor b = Tensor::full({3}, 1e8, DType::f32);
  CHECK(eg::same_bits(eg::lerp(a, b, 0.0), a));
  CHECK(eg::same_bits(eg::lerp(a, b, 1.0), b));
  CHECK(eg::same_bits(eg::lerp(b, a, 1.0), a)); // b + (a - b) is 0
  CHECK(eg::same_bits(eg::lerp(b, a, Tensor::ones({3})), a));
}
