// Accuracy and specials of the vector functions against long double, broadcasting against plain loops, and the promise
// that a value does not depend on where it lies.

#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/pointwise/pointwise.h"
#include "core/simd/simd.h"
#include "core/threads/parallel.h"

#include <cmath>
#include <doctest/doctest.h>
#include <functional>
#include <limits>

using eg::DType;
using eg::Shape;
using eg::Tensor;

namespace {

using Unary = Tensor (*)(const Tensor&);
using Exact = long double (*)(long double);

template <class T> std::vector<T> grid(double low, double high, std::size_t count) {
  std::vector<T> x(count);
  for (std::size_t i = 0; i < count; ++i)
    x[i] = static_cast<T>(low + (high - low) * static_cast<double>(i) / static_cast<double>(count - 1));
  return x;
}

/// Largest error over the grid in units of the last place of the exact value; where the exact value is below `floor`,
/// in units of floor's last place.
template <class T> double largest_ulp(Unary f, Exact exact, double low, double high, double floor = 0.0) {
  const std::vector<T> x = grid<T>(low, high, 60001);
  const std::vector<T> y = f(Tensor::from<T>(x, {static_cast<std::int64_t>(x.size())})).template to_vector<T>();
  double worst = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double value = exact(static_cast<long double>(x[i]));
    const T size = std::max({std::abs(static_cast<T>(value)), static_cast<T>(floor), std::numeric_limits<T>::min()});
    const T ulp = std::nextafter(size, std::numeric_limits<T>::infinity()) - size;
    worst = std::max(worst, static_cast<double>(std::abs(static_cast<long double>(y[i]) - value) / ulp));
  }
  return worst;
}

long double exact_sigmoid(long double x) { return 1.0L / (1.0L + std::exp(-x)); }
long double exact_cdf(long double x) { return 0.5L * std::erfc(-x * std::sqrt(0.5L)); }
long double exact_gelu(long double x) { return x * exact_cdf(x); }
long double exact_gelu_slope(long double x) {
  return exact_cdf(x) + x * std::exp(-x * x / 2) / std::sqrt(2.0L * 3.14159265358979323846264338327950288L);
}
Tensor gelu_slope(const Tensor& x) { return eg::gelu_backward(x, Tensor::ones(x.shape(), x.dtype())); }
Tensor silu_slope(const Tensor& x) { return eg::silu_backward(x, Tensor::ones(x.shape(), x.dtype())); }
long double exact_silu_slope(long double x) {
  const long double s = exact_sigmoid(x);
  return s * (1.0L + x * (1.0L - s));
}

struct Accuracy {
  std::string name;
  Unary f;
  Exact exact;
  double low, high;
  double f32, f64; // largest error allowed, in ULP
  double floor = 0.0;
};

template <class T> T value_at(Unary f, T x) {
  return f(Tensor::full({1}, static_cast<double>(x), eg::dtype_of<T>)).template data<T>()[0];
}

template <class T> void check_specials() {
  const T infinity = std::numeric_limits<T>::infinity();
  const T nan = std::numeric_limits<T>::quiet_NaN();
  for (Unary f : {eg::exp, eg::log, eg::sqrt, eg::rsqrt, eg::tanh, eg::sigmoid, eg::relu, eg::gelu, eg::gelu_tanh,
                  eg::silu, gelu_slope, silu_slope})
    CHECK(std::isnan(value_at<T>(f, nan)));
  CHECK(value_at<T>(eg::exp, -infinity) == T{0});
  CHECK(value_at<T>(eg::exp, infinity) == infinity);
  CHECK(value_at<T>(eg::exp, T{1000}) == infinity);
  CHECK(value_at<T>(eg::exp, T{-1000}) == T{0});
  CHECK(value_at<T>(eg::exp, T{0}) == T{1});
  CHECK(value_at<T>(eg::log, T{0}) == -infinity);
  CHECK(value_at<T>(eg::log, T{1}) == T{0});
  CHECK(value_at<T>(eg::log, infinity) == infinity);
  CHECK(std::isnan(value_at<T>(eg::log, T{-1})));
  CHECK(value_at<T>(eg::tanh, infinity) == T{1});
  CHECK(value_at<T>(eg::tanh, -infinity) == T{-1});
  CHECK(std::signbit(value_at<T>(eg::tanh, T{-0.0})));
  CHECK(value_at<T>(eg::sigmoid, infinity) == T{1});
  CHECK(value_at<T>(eg::sigmoid, -infinity) == T{0});
  CHECK(value_at<T>(eg::gelu, T{1e30F}) == T{1e30F});
  CHECK(value_at<T>(eg::gelu, T{-1e30F}) == T{0});
  CHECK(value_at<T>(eg::gelu_tanh, T{1e30F}) == T{1e30F});
  CHECK(value_at<T>(gelu_slope, T{1e30F}) == T{1});
  CHECK(value_at<T>(gelu_slope, T{-1e30F}) == T{0});
  CHECK(value_at<T>([](const Tensor& x) { return eg::gelu_tanh_backward(x, Tensor::ones({1}, x.dtype())); },
                    T{1e30F}) == T{1});
  // Subnormal results and arguments.
  const T tiny = std::log(std::numeric_limits<T>::min()) - T{2};
  CHECK(value_at<T>(eg::exp, tiny) == doctest::Approx(static_cast<double>(std::exp(tiny))).epsilon(1e-4));
  CHECK(value_at<T>(eg::exp, tiny) > T{0});
  const T smallest = std::numeric_limits<T>::denorm_min();
  CHECK(value_at<T>(eg::log, smallest) == doctest::Approx(static_cast<double>(std::log(smallest))));
}

/// Element of x under the broadcast index of an output of shape `out`.
double broadcast_at(const Tensor& x, const Shape& out, std::int64_t flat) {
  std::int64_t place = 0;
  for (int back = 1; back <= out.rank(); ++back) {
    const std::int64_t index = flat % out[-back];
    flat /= out[-back];
    if (back <= x.rank() && x.shape()[-back] != 1) place += index * x.strides()[-back];
  }
  return x.data<double>()[place];
}

} // namespace

TEST_CASE("vector functions are accurate to a few units in the last place") {
  INFO("vector target: ", eg::simd::target());
  const Accuracy table[] = {
      {"exp", eg::exp, std::exp, -87.0, 88.0, 1.0, 0.0},
      {"log", eg::log, std::log, 1e-30, 10.0, 1.0, 1.0},
      {"tanh", eg::tanh, std::tanh, -12.0, 12.0, 3.0, 3.0},
      {"tanh near 0", eg::tanh, std::tanh, -0.02, 0.02, 3.0, 3.0},
      {"sigmoid", eg::sigmoid, exact_sigmoid, -80.0, 80.0, 2.5, 2.5},
      {"silu", eg::silu, [](long double x) { return x * exact_sigmoid(x); }, -80.0, 80.0, 3.5, 3.5},
      {"silu slope", silu_slope, exact_silu_slope, -40.0, 40.0, 3.0, 3.0, 1.0},
      {"gelu", eg::gelu, exact_gelu, -5.0, 6.0, 16.0, 8.0},
      {"gelu against 1", eg::gelu, exact_gelu, -40.0, 40.0, 3.0, 3.0, 1.0},
      {"gelu slope against 1", gelu_slope, exact_gelu_slope, -40.0, 40.0, 3.0, 3.0, 1.0},
  };
  for (const Accuracy& row : table) {
    CAPTURE(row.name);
    CHECK(largest_ulp<float>(row.f, row.exact, row.low, row.high, row.floor) <= row.f32);
    CHECK(largest_ulp<double>(row.f, row.exact, row.low, row.high, row.floor) <= std::max(row.f64, 1.0));
  }
  CHECK(largest_ulp<double>(eg::exp, std::exp, -708.0, 709.0) <= 1.0);
}

TEST_CASE("vector functions keep NaN and treat infinities and subnormal numbers right") {
  check_specials<float>();
  check_specials<double>();
}

TEST_CASE("a value does not depend on where it lies") {
  for (const std::int64_t n : {1, 2, 7, 15, 16, 17, 33, 100}) {
    const Tensor x = Tensor::full({n}, 0.7310585, DType::f32);
    const Tensor g = Tensor::full({n}, 1.2345678, DType::f32);
    for (const Tensor& y : {eg::exp(x), eg::gelu(x), eg::tanh(x), eg::gelu_backward(x, g), eg::div(x, g)})
      for (const float v : y.to_vector<float>()) CHECK(v == y.data<float>()[0]);
  }
}

TEST_CASE("binary ops broadcast like NumPy, on any strides") {
  const std::vector<std::pair<Shape, Shape>> shapes = {{{3, 4}, {3, 4}},
                                                       {{3, 4}, {4}},
                                                       {{4}, {3, 4}},
                                                       {{3, 1}, {1, 4}},
                                                       {{2, 3, 4}, {3, 1}},
                                                       {{}, {2, 3}},
                                                       {{2, 3}, {}},
                                                       {{2, 1, 3, 1}, {4, 1, 5}},
                                                       {{40000}, {1}},
                                                       {{3, 20000}, {3, 1}},
                                                       {{70, 300}, {300}},
                                                       {{1, 1}, {1}},
                                                       {{2, 3, 1, 5}, {1, 3, 4, 1}}};
  for (const auto& [sa, sb] : shapes) {
    const Tensor a = eg::random_normal(sa, {1, 2}, 0.0, 1.0, DType::f64);
    const Tensor b = eg::random_normal(sb, {3, 4}, 2.0, 0.2, DType::f64);
    const Tensor y = eg::sub(a, b);
    REQUIRE(y.shape() == eg::broadcast_shapes("test", sa, sb));
    bool equal = true;
    for (std::int64_t i = 0; i < y.numel(); ++i)
      equal = equal && y.data<double>()[i] == broadcast_at(a, y.shape(), i) - broadcast_at(b, y.shape(), i);
    const std::string both = sa.str() + " and " + sb.str();
    CHECK_MESSAGE(equal, both);
  }
  const Tensor a = eg::random_normal({6, 8}, {1, 2}, 0.0, 1.0, DType::f64);
  const Tensor b = eg::random_normal({8, 6}, {3, 4}, 0.0, 1.0, DType::f64);
  for (const Tensor& left : {a.transpose(), a.transpose().slice(0, 1, 8, 2), a.slice(0, 0, 6, 5).expand({2, 8})}) {
    const Tensor right = eg::random_normal(left.shape(), {5, 6}, 0.0, 1.0, DType::f64);
    CHECK(eg::same_bits(eg::mul(left, right), eg::mul(left.clone(), right)));
    CHECK(eg::same_bits(eg::div(right, left), eg::div(right, left.clone())));
    CHECK(eg::same_bits(eg::add(left, left), eg::add(left.clone(), left.clone())));
  }
  CHECK(eg::same_bits(eg::add(a, b.transpose()), eg::add(a, b.transpose().clone())));
  CHECK_THROWS_WITH_AS(eg::add(Tensor::zeros({4, 3}), Tensor::zeros({5, 2})),
                       "add: shapes do not broadcast: a is [4, 3], b is [5, 2]", eg::ShapeError);
}

TEST_CASE("pointwise results are the same bits for any number of threads") {
  const Tensor x = eg::random_normal({333, 401}, {7, 8});
  const Tensor row = eg::random_normal({401}, {9, 10});
  eg::parallel::set_threads(1);
  const Tensor one = eg::gelu(x + row);
  eg::parallel::set_threads(3);
  const Tensor three = eg::gelu(x + row);
  eg::parallel::set_threads(0);
  CHECK(eg::same_bits(one, three));
}
