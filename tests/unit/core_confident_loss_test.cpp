// Places where a formula that is right on paper loses its digits: losses of confident predictions, norms of zeros,
// norms of very large numbers, statistics far from zero, whole numbers from fractions.

#include "autograd/functional.h"
#include "autograd/tape.h"
#include "core/ops.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace eg;

TEST_CASE("bce_with_logits: confident predictions keep their digits, and their gradients, in f32") {
  for (const double target : {0.0, 1.0})
    for (const double size : {5.0, 10.0, 16.0, 30.0, 80.0}) {
      const double logit = target == 1.0 ? size : -size; // nearly right
      const Tensor x = Tensor::full({1}, logit), t = Tensor::full({1}, target);
      Tape tape;
      const Tensor loss = bce_with_logits(x, t);
      const double slope = tape.gradient(loss, {x})[0].item();
      const double exact = std::log1p(std::exp(-size)),
                   exact_slope = (target == 1.0 ? -1.0 : 1.0) / (1.0 + std::exp(size));
      INFO("target ", target, ", logit ", logit);
      CHECK(loss.item() == doctest::Approx(exact).epsilon(1e-6));
      CHECK(slope == doctest::Approx(exact_slope).epsilon(1e-6));
    }
}

TEST_CASE("norm: at zero the gradient and the second derivative are zero") {
  const Tensor x = Tensor::zeros({3}, DType::f64), u = Tensor::from<double>({1, -2, 3}, {3});
  const auto length = [](const std::vector<Tensor>& in) { return norm(in[0]); };
  const Tensor second = hvp(length, {x}, {u}).products[0];
  for (std::int64_t i = 0; i < 3; ++i) CHECK(second.at({i}) == 0.0);
  const Tensor one = Tensor::from<double>({3, 4, 0}, {3}); // control: elsewhere it is (u - n <n, u>) / |x|
  const Tensor curved = hvp(length, {one}, {u}).products[0];
  CHECK(curved.at({2}) == doctest::Approx(0.6).epsilon(1e-14));
}

TEST_CASE("rms_norm: second derivatives of rows whose squares leave f32 agree with f64") {
  const Tensor x = random_normal({2, 7}, {1, 0}, 0.0, 1e19, DType::f64),
               u = random_normal({2, 7}, {2, 0}, 0.0, 1e19, DType::f64);
  const Tensor v = random_normal({2, 7}, {3, 0}, 0.0, 1.0, DType::f64);
  const auto product = [&](DType dtype) {
    const Tensor weights = v.to(dtype);
    const auto f = [&](const std::vector<Tensor>& in) { return sum(rms_norm(in[0]) * weights); };
    return hvp(f, {x.to(dtype)}, {u.to(dtype)}).products[0].to(DType::f64);
  };
  const Tensor wide = product(DType::f64);
  CHECK(relative_error(product(DType::f32), wide) < 1e-4);
  CHECK(max(abs(wide.reshape({-1})), 0).item() > 1e-21);
}

TEST_CASE("batch_norm and layer_norm: second derivatives far from zero agree with f64") {
  // Numbers that f32 holds exactly, so that both types see the same: deviations of quarters around 2^17.
  const Tensor x = Tensor(random_integers({64, 4}, {4, 0}, -8, 9)).to(DType::f64) * 0.25 + 131072.0;
  const Tensor u = random_normal({64, 4}, {5, 0}, 0.0, 1.0, DType::f64),
               v = random_normal({64, 4}, {6, 0}, 0.0, 1.0, DType::f64);
  const auto product = [&](bool batch, DType dtype) {
    const Tensor weights = v.to(dtype);
    const auto f = [&](const std::vector<Tensor>& in) {
      return sum((batch ? batch_norm(in[0]).y : layer_norm(in[0])) * weights);
    };
    return hvp(f, {x.to(dtype)}, {u.to(dtype).to(DType::f64).to(dtype)}).products[0].to(DType::f64);
  };
  CHECK(relative_error(product(true, DType::f32), product(true, DType::f64)) < 1e-4);
  CHECK(relative_error(product(false, DType::f32), product(false, DType::f64)) < 1e-2); // rows of four
}

TEST_CASE("arange: fractions are not whole numbers") {
  CHECK_THROWS_WITH_AS(arange(0, 1, 0.1),
                       "arange: 0.1 is not a whole number, and i64 holds no other; name a floating dtype", ValueError);
  CHECK_THROWS_AS(arange(0.5, 3), ValueError);
  CHECK(arange(0, 1, 0.25, DType::f32).numel() == 4);
  CHECK(arange(3, 9, 2).at({2}) == 7.0);
}
