// cross_entropy where all logits of a row are far from 0, or one of them is far above the others: the loss and its
// gradients keep their digits.

#include "autograd/functional.h"
#include "autograd/tape.h"
#include "core/ops.h"
#include "core/reduction.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <doctest/doctest.h>
#include <limits>
#include <string>
#include <vector>

using namespace eg;

namespace {

constexpr std::int64_t no_row_ignored = -100;

template <class T> constexpr double rounding = sizeof(T) == 4 ? 0x1p-23 : 0x1p-52;

Tensor gradient_of(const Tensor& logits, const Tensor& labels, double smoothing, const char* reduction = "sum") {
  Tape tape;
  const Tensor loss = cross_entropy(logits, labels, smoothing, no_row_ignored, reduction);
  const Tensor g = Tensor::ones(loss.shape(), loss.dtype());
  return tape.gradient(loss, {logits}, g)[0].to(DType::f64);
}

double largest_difference(const Tensor& a, const Tensor& b) { return max(abs((a - b).reshape({-1})), 0).item(); }

/// 64 x 10 logits of sixteenths in (-4, 4), which stay exact beside offsets of up to 2^19 (f32), 2^48 (f64).
Tensor sixteenths() { return Tensor(random_integers({64, 10}, {41, 0}, -64, 65)).to(DType::f64) * 0.0625; }
Tensor some_labels() { return random_integers({64}, {42, 0}, 0, 10); }

} // namespace

TEST_CASE_TEMPLATE("cross_entropy: an offset that all logits share leaves loss and gradient as they are", T, float,
                   double) {
  const Tensor x = sixteenths(), labels = some_labels();
  for (const double smoothing : {0.0, 0.2}) {
    const Tensor right = gradient_of(x, labels, smoothing);
    const double right_loss = cross_entropy(x, labels, smoothing).item();
    for (const double offset : {1e1, -0x1p10, 0x1p15, -0x1p19, sizeof(T) == 4 ? 0x1p19 : 0x1p48}) {
      CAPTURE(offset);
      CAPTURE(smoothing);
      const Tensor moved = (x + std::trunc(offset)).to(dtype_of<T>);
      const Tensor d = gradient_of(moved, labels, smoothing);
      CHECK(largest_difference(d, right) < 8 * rounding<T>);
      CHECK(max(abs(sum(d, {1})), 0).item() < 16 * rounding<T>);
      for (const Reduction mode : {Reduction::fast, Reduction::exact}) {
        const ReductionScope scope(mode);
        CHECK(cross_entropy(moved, labels, smoothing).item() == doctest::Approx(right_loss).epsilon(8 * rounding<T>));
      }
    }
  }
}

TEST_CASE_TEMPLATE("cross_entropy: equal logits of any size have the gradient of zeros", T, float, double) {
  const Tensor label = Tensor::from<std::int64_t>({1}, {1});
  for (const double size : {1e4, 1e5, 1e6, 1e7, -1e7, 1e12, 1e17, 1e30}) {
    CAPTURE(size);
    const std::vector<double> d =
        gradient_of(Tensor::full({1, 4}, size, dtype_of<T>), label, 0.0).template to_vector<double>();
    for (std::size_t j = 0; j < 4; ++j) CHECK(d[j] == doctest::Approx(j == 1 ? -0.75 : 0.25).epsilon(4 * rounding<T>));
  }
}

TEST_CASE_TEMPLATE("cross_entropy: rows that are nearly certain keep the digits of loss and gradients", T, float,
                   double) {
  const Tensor label = Tensor::from<std::int64_t>({1}, {1});
  for (const double size : {2.0, 10.0, 20.0, 30.0, 36.0, 80.0}) {
    CAPTURE(size);
    const Tensor x = Tensor::from<double>({0.0, size}, {1, 2}).to(dtype_of<T>);
    const double p = 1.0 / (1.0 + std::exp(size)), bound = 64 * rounding<T>;
    CHECK(cross_entropy(x, label).item() == doctest::Approx(std::log1p(std::exp(-size))).epsilon(bound).scale(0.0));
    const std::vector<double> d = gradient_of(x, label, 0.0).template to_vector<double>();
    CHECK(d[0] == doctest::Approx(p).epsilon(bound).scale(0.0));
    CHECK(d[1] == doctest::Approx(-p).epsilon(bound).scale(0.0));
  }
}

TEST_CASE("cross_entropy: second derivatives do not depend on an offset") {
  const Tensor x = sixteenths(), labels = some_labels();
  const Tensor u = random_normal({64, 10}, {43, 0}, 0.0, 1.0, DType::f64).to(DType::f32).to(DType::f64);
  const auto product = [&](const Tensor& at) {
    const auto f = [&](const std::vector<Tensor>& in) {
      return sum(square(cross_entropy(in[0], labels, 0.1, no_row_ignored, "none")));
    };
    return hvp(f, {at}, {u.to(at.dtype())}).products[0].to(DType::f64);
  };
  const Tensor right = product(x);
  CHECK(relative_error(product((x + 0x1p19).to(DType::f32)), right) < 4e-6);
  CHECK(relative_error(product(x + 0x1p40), right) < 1e-13);
}

TEST_CASE("cross_entropy: smoothed losses whose sums of logits leave f32 are numbers") {
  const Tensor x = random_normal({4, 65}, {44, 0}, 0.0, 0x1p122, DType::f64);
  const Tensor labels = random_integers({4}, {45, 0}, 0, 65);
  const Tensor right = cross_entropy(x.to(DType::f32).to(DType::f64), labels, 0.2, no_row_ignored, "none");
  const Tensor y = cross_entropy(x.to(DType::f32), labels, 0.2, no_row_ignored, "none");
  CHECK(relative_error(y.to(DType::f64), right) < 1e-6);
}

TEST_CASE("cross_entropy: smoothed losses of f64 logits near the end of their range") {
  constexpr double large = std::numeric_limits<double>::max() / 1.05;
  const Tensor label = Tensor::from<std::int64_t>({0}, {1});
  const Tensor close = Tensor::from<double>({1.7e308, 1.6e308, 1.7e308}, {1, 3});
  Tensor apart = Tensor::full({1, 8}, large, DType::f64); // one difference leaves the range, their mean does not
  apart.mutable_data<double>()[5] = -large;
  for (const Reduction mode : {Reduction::fast, Reduction::exact}) {
    const ReductionScope scope(mode);
    CHECK(cross_entropy(close, label, 0.1).item() / 1e305 == doctest::Approx(10.0 / 3.0).epsilon(1e-14));
    CHECK(cross_entropy(apart, label, 0.1).item() / large == doctest::Approx(0.025).epsilon(1e-14));
  }
}

TEST_CASE_TEMPLATE("cross_entropy and nll_loss: means of rows whose sum leaves the type", T, float, double) {
  const double most = static_cast<double>(std::numeric_limits<T>::max());
  const Tensor x = Tensor::from<double>({0.0, most * 0.875}, {1, 2}).to(dtype_of<T>).expand({5, 2});
  const Tensor labels = Tensor::from<std::int64_t>({0, 0, -100, 0, 0}, {5});
  for (const Reduction mode : {Reduction::fast, Reduction::exact}) {
    const ReductionScope scope(mode);
    CHECK(cross_entropy(x, labels).item() / most == doctest::Approx(0.875).epsilon(4 * rounding<T>));
    CHECK(cross_entropy(x, labels, 0.0, no_row_ignored, "sum").item() == INFINITY); // control
    const Tensor weight = Tensor::from<double>({0.5, 1.0}, {2}).to(dtype_of<T>);
    Tape tape;
    const Tensor picked = Tensor::full({5, 2}, -most * 0.875, dtype_of<T>);
    const Tensor losses = nll_loss(picked, labels, weight);
    CHECK(losses.item() / most == doctest::Approx(0.875).epsilon(4 * rounding<T>));
    CHECK(tape.gradient(losses, {picked})[0].template to_vector<T>()[0] == doctest::Approx(-0.25));
    CHECK(nll_loss(picked, labels).item() / most == doctest::Approx(0.875).epsilon(4 * rounding<T>));
  }
}
