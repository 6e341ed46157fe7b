// Initialisers: ranges, moments, and the inverse of the normal distribution function.

#include "nn/init.h"
#include "nn/vit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

using namespace eg;
using namespace eg::nn;

namespace {

struct Moments {
  double mean = 0.0, deviation = 0.0, low = 0.0, high = 0.0;
};

Moments moments_of(const Tensor& x) {
  const std::vector<double> v = x.to(DType::f64).to_vector<double>();
  Moments m{.low = v[0], .high = v[0]};
  for (const double a : v) {
    m.mean += a / static_cast<double>(v.size());
    m.low = std::min(m.low, a);
    m.high = std::max(m.high, a);
  }
  for (const double a : v) m.deviation += (a - m.mean) * (a - m.mean) / static_cast<double>(v.size());
  m.deviation = std::sqrt(m.deviation);
  return m;
}

} // namespace

TEST_CASE("nn: the inverse normal distribution function undoes erfc") {
  for (double z = -8.0; z <= 5.0; z += 0.037) {
    const double p = 0.5 * std::erfc(-z / std::numbers::sqrt2);
    CHECK(init::inverse_normal_cdf(p) == doctest::Approx(z).epsilon(1e-9));
  }
  CHECK(init::inverse_normal_cdf(0.5) == 0.0);
  CHECK(init::inverse_normal_cdf(0.975) == doctest::Approx(1.959963984540054).epsilon(1e-14));
  CHECK_THROWS_AS(init::inverse_normal_cdf(0.0), ValueError);
  CHECK_THROWS_AS(init::inverse_normal_cdf(1.0), ValueError);
}

TEST_CASE("nn: trunc_normal stays within two deviations and has the truncated moments") {
  Tensor x = Tensor::empty({400, 500}, DType::f64);
  init::trunc_normal(x, 0.02, {5, 0});
  const Moments m = moments_of(x);
  CHECK(m.low >= -0.04);
  CHECK(m.high <= 0.04);
  CHECK(m.high > 0.0399);
  CHECK(std::abs(m.mean) < 2e-4);
  // variance of a standard normal cut at +-2: 1 - 4 phi(2) / (2 Phi(2) - 1) = 0.77374
  CHECK(m.deviation == doctest::Approx(0.02 * std::sqrt(0.7737413)).epsilon(0.005));
}

TEST_CASE("nn: xavier and kaiming have the published ranges") {
  Tensor x = Tensor::empty({300, 500}, DType::f64);
  init::xavier_uniform(x, {5, 0});
  double bound = std::sqrt(6.0 / 800.0);
  CHECK(moments_of(x).high <= bound);
  CHECK(moments_of(x).high > 0.999 * bound);
  CHECK(moments_of(x).deviation == doctest::Approx(bound / std::sqrt(3.0)).epsilon(0.01));
  init::kaiming_uniform(x, {5, 0});
  bound = 1.0 / std::sqrt(500.0);
  CHECK(moments_of(x).low >= -bound);
  CHECK(moments_of(x).low < -0.999 * bound);
  init::xavier_normal(x, {5, 0}, 2.0);
  CHECK(moments_of(x).deviation == doctest::Approx(2.0 * std::sqrt(2.0 / 800.0)).epsilon(0.01));
  init::kaiming_normal(x, {5, 0});
  CHECK(moments_of(x).deviation == doctest::Approx(std::sqrt(2.0 / 500.0)).epsilon(0.01));
  Tensor vector = Tensor::empty({3});
  CHECK_THROWS_WITH_AS(init::xavier_uniform(vector, {}), "init::xavier_uniform: a weight is [out, in], not [3]",
                       ShapeError);
  Tensor whole = Tensor::empty({2, 2}, DType::i64);
  CHECK_THROWS_AS(init::trunc_normal(whole, 1.0, {}), DTypeError);
}

TEST_CASE("nn: the same key gives the same numbers, f32 is f64 rounded, other keys differ") {
  Tensor a = Tensor::empty({50, 40}), b = Tensor::empty({50, 40}), wide = Tensor::empty({50, 40}, DType::f64);
  init::trunc_normal(a, 0.02, {5, 0});
  init::trunc_normal(b, 0.02, {5, 0});
  init::trunc_normal(wide, 0.02, {5, 0});
  CHECK(same_bits(a, b));
  CHECK(same_bits(wide.to(DType::f32), a));
  init::trunc_normal(b, 0.02, {5, 1});
  CHECK_FALSE(same_bits(a, b));
}

TEST_CASE("nn: a ViT is initialised as in timm") {
  VitConfig c;
  c.layers = 2;
  const Vit model(c, {1, 0});
  for (const Parameter& p : model.named_parameters()) {
    CAPTURE(p.name);
    const Moments m = moments_of(p.value);
    if (p.name.ends_with("bias"))
      CHECK((m.low == 0.0 && m.high == 0.0));
    else if (p.name.find("norm") != std::string::npos)
      CHECK((m.low == 1.0 && m.high == 1.0));
    else if (p.name == "cls_token")
      CHECK(m.deviation == doctest::Approx(1e-6).epsilon(0.3));
    else if (p.name == "patch_embedding.weight")
      CHECK(m.deviation == doctest::Approx(1.0 / std::sqrt(3.0 * 48.0)).epsilon(0.05));
    else
      CHECK(m.deviation == doctest::Approx(0.0176).epsilon(0.05));
  }
  // Two layers of one kind do not share their numbers.
  CHECK_FALSE(same_bits(model.blocks[0]->mlp.fc1.weight, model.blocks[1]->mlp.fc1.weight));
}

TEST_CASE("nn: sinusoidal positions") {
  const Tensor p = sinusoidal_positions(7, 6, DType::f64);
  CHECK(p.at({0, 0}) == 0.0);
  CHECK(p.at({0, 1}) == 1.0);
  CHECK(p.at({5, 2}) == doctest::Approx(std::sin(5.0 / std::pow(10000.0, 2.0 / 6.0))));
  CHECK(p.at({6, 5}) == doctest::Approx(std::cos(6.0 / std::pow(10000.0, 4.0 / 6.0))));
}
