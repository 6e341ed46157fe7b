// Reductions beyond sums on numbers that the laws' samples leave out: ties, NaN, infinities, extreme sizes.

#include "autograd/tape.h"
#include "core/ops.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>

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
