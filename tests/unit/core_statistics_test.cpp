// Reductions beyond sums on numbers that the laws' samples leave out: ties, NaN, infinities, extreme sizes.

#include "autograd/tape.h"
#include "core/ops.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <random>
#include <vector>

using eg::DType;
using eg::Shape;
using eg::Tensor;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

Tensor row_of(std::initializer_list<double> values) {
  return Tensor::from<double>(values, {static_cast<std::int64_t>(values.size())});
}

/// Gradient of sum f(x).
template <class F> std::vector<double> gradient_of(F f, const Tensor& x) {
  eg::Tape tape;
  const Tensor y = eg::sum(f(x));
  return tape.gradient(y, {x})[0].to_vector<double>();
}

} // namespace

TEST_CASE("smallest and largest: the first of equals, NaN before everything") {
  const Tensor x = row_of({3, 1, 2, 1, 3});
  CHECK(eg::argmin(x, 0).item() == 1);
  CHECK(eg::argmax(x, 0).item() == 0);
  CHECK(eg::min_with_index(x, 0).indices.item() == 1);
  CHECK(gradient_of([](const Tensor& t) { return eg::min(t, 0); }, x) == std::vector<double>{0, 1, 0, 0, 0});
  CHECK(gradient_of([](const Tensor& t) { return eg::max_with_index(t, 0).values; }, x) ==
        std::vector<double>{1, 0, 0, 0, 0});
  CHECK(eg::argmin(row_of({1, not_a_number, 0}), 0).item() == 1);
  CHECK(std::isnan(eg::min(row_of({1, not_a_number, -inf}), 0).item()));
  CHECK(std::isnan(eg::amax(row_of({1, not_a_number, inf})).item()));
  CHECK(eg::amin(row_of({1, -inf, 0})).item() == -inf);
}

TEST_CASE("amax and amin share the gradient among equals") {
  const Tensor x = Tensor::from<double>({5, 5, 0, 5, -1, -1}, {2, 3});
  const auto third = 1.0 / 3.0;
  CHECK(gradient_of([](const Tensor& t) { return eg::amax(t); }, x) ==
        std::vector<double>{third, third, 0, third, 0, 0});
  CHECK(gradient_of([](const Tensor& t) { return eg::amin(t, {1}); }, x) == std::vector<double>{0, 0, 1, 0, 0.5, 0.5});
}

TEST_CASE("variance of a small spread around a large mean") {
  const Tensor x = eg::affine(row_of({1, 2, 3, 4}), 1.0, 1e9);
  CHECK(eg::var(x).item() == doctest::Approx(5.0 / 3.0).epsilon(1e-15));
  CHECK(eg::var(x, {}, 0.0).item() == doctest::Approx(1.25).epsilon(1e-15));
  const Tensor f32 = eg::affine(row_of({1, 2, 3, 4}), 1.0, 16000.0).to(DType::f32);
  CHECK(eg::var(f32).item() == doctest::Approx(5.0 / 3.0).epsilon(1e-7));
  CHECK(eg::std_deviation(row_of({7, 7, 7})).item() == 0.0);
  CHECK(gradient_of([](const Tensor& t) { return eg::std_deviation(t); }, row_of({7, 7, 7})) ==
        std::vector<double>{0, 0, 0});
}

TEST_CASE("variance at the ends of the range") {
  CHECK(eg::std_deviation(row_of({3e200, -3e200}), {}, 0.0).item() == doctest::Approx(3e200));
  CHECK(eg::std_deviation(row_of({3e-200, -3e-200}), {}, 0.0).item() == doctest::Approx(3e-200));
  CHECK(eg::var(row_of({1e308, 1e308, 1e308})).item() < 1e300); // the mean does not overflow
  CHECK(std::isnan(eg::var(row_of({1}), {}, 1.0).item()));
  CHECK(eg::var(row_of({1}), {}, 0.0).item() == 0.0);
  CHECK(std::isnan(eg::var(row_of({1, not_a_number})).item()));
  CHECK(std::isnan(eg::var(row_of({1, inf})).item()));
}

TEST_CASE("what differs from 0") {
  const Tensor x = Tensor::from<double>({0, -0.0, not_a_number, 1, 0, 0}, {2, 3});
  CHECK(eg::count_nonzero(x).item() == 2);
  CHECK(eg::count_nonzero(x, {1}).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 1});
  CHECK(eg::any(x, {0}).to_vector<bool>() == std::vector<bool>{true, false, true});
  CHECK(eg::all(x, {0}).to_vector<bool>() == std::vector<bool>{false, false, false});
  CHECK(eg::all(Tensor::zeros({0})).item() == 1.0);
  CHECK(eg::any(Tensor::zeros({0})).item() == 0.0);
  CHECK(eg::any(Tensor::from<std::int64_t>({0, 4}, {2})).item() == 1.0);
}

TEST_CASE("median and quantile: infinities, and neighbours whose difference leaves the type") {
  const auto median_of = [](std::initializer_list<double> values) { return eg::median(row_of(values)).item(); };
  CHECK(median_of({inf, inf}) == inf);
  CHECK(median_of({-inf, -inf, -inf, -inf}) == -inf);
  CHECK(median_of({-inf, 1}) == -inf);
  CHECK(median_of({inf, 1}) == inf);
  CHECK(std::isnan(median_of({inf, -inf}))); // there is no number between
  CHECK(eg::median(row_of({-3e38, 3e38}).to(DType::f32)).item() == 0.0);
  CHECK(eg::quantile(row_of({-1e308, 1e308}), 0.75).item() == doctest::Approx(0.5e308));
  CHECK(eg::quantile(row_of({0.1, 0.1}), 0.3).item() == 0.1); // not 0.7 * 0.1 + 0.3 * 0.1
  CHECK(gradient_of([](const Tensor& x) { return eg::median(x); }, row_of({4, inf, inf, 5})) ==
        std::vector<double>{0, 0.5, 0, 0.5});
  CHECK(gradient_of([](const Tensor& x) { return eg::median(x); }, row_of({-1e308, 1e308})) ==
        std::vector<double>{0.5, 0.5});
}

TEST_CASE_TEMPLATE("median and quantile: thousands of lines of extreme numbers, by the formula in long double", T,
                   float, double) {
  std::mt19937 draw(8);
  const auto most = static_cast<double>(std::numeric_limits<T>::max()),
             least = static_cast<double>(std::numeric_limits<T>::min());
  const std::vector<double> pool = {inf,       -inf, most, -most, most, -most, most / 2, -most / 2,
                                    -most / 4, 1,    -1,   0.5,   0,    least, -least};
  int infinite = 0, wide = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<double> line(1 + draw() % 6);
    for (double& x : line) x = pool[draw() % pool.size()];
    const double q = round % 3 == 0 ? 0.5 : static_cast<double>(draw() % 65) / 64;
    const Tensor x = Tensor::from<double>(line, {static_cast<std::int64_t>(line.size())}).to(eg::dtype_of<T>);
    std::sort(line.begin(), line.end());
    const double place = q * static_cast<double>(line.size() - 1);
    const auto below = static_cast<std::size_t>(place), above = std::min(below + 1, line.size() - 1);
    const long double a = line[below], b = line[above], w = place - std::floor(place);
    const long double wanted = a == b || w == 0 ? a : (1 - w) * a + w * b;
    const double found = (round % 3 == 0 ? eg::median(x) : eg::quantile(x, q)).item();
    CAPTURE(line);
    CAPTURE(q);
    infinite += std::isinf(wanted) ? 1 : 0;
    wide += !std::isinf(a) && !std::isinf(b) && b - a > static_cast<long double>(most) ? 1 : 0;
    if (std::isnan(wanted) || std::isinf(wanted) || a == b) {
      CHECK((found == static_cast<double>(wanted) || (std::isnan(found) && std::isnan(wanted))));
    } else {
      const long double size = std::max({std::abs(a), std::abs(b), static_cast<long double>(least)});
      CHECK(std::abs(found - wanted) <= 4 * std::numeric_limits<T>::epsilon() * size);
    }
  }
  CHECK(infinite > 500);
  CHECK(wide > 100);
}
