// cross_entropy where all logits of a row are far from 0, or one of them is far above the others: the loss and its
// gradients keep their digits.

#include "autograd/functional.h"
#include "autograd/tape.h"
#include "core/ops.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <doctest/doctest.h>
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
      CHECK(cross_entropy(moved, labels, smoothing).item() == doctest::Approx(right_loss).epsilon(8 * rounding<T>));
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
