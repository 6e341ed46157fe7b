// Calls at the edges of what numbers and extents can be: the device gives what the CPU gives.

#include "core/call.h"
#include "core/device/device.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/random.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace eg;

namespace {

const Device cuda = Device::cuda();
const double infinity = std::numeric_limits<double>::infinity();

/// Equal, or both NaN.
void check_alike(const Tensor& here, const Tensor& there) {
  REQUIRE(here.shape() == there.shape());
  const Tensor a = here.reshape({-1}), b = there.to(Device::cpu()).reshape({-1});
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    if (std::isnan(a.at({i}))) {
      CHECK(std::isnan(b.at({i})));
    } else {
      CHECK(std::signbit(a.at({i})) == std::signbit(b.at({i})));
      CHECK((b.at({i}) == a.at({i}) || std::abs(b.at({i}) - a.at({i})) < 1e-6 * std::abs(a.at({i}))));
    }
  }
}

} // namespace

TEST_CASE("attention of huge values stays finite where its result is") {
  for (const auto& [dtype, huge] : {std::pair{DType::f32, 3e38}, {DType::f64, 1e308}})
    for (const std::int64_t keys : {2, 40, 150}) {
      const Tensor q = Tensor::zeros({3, 2}, dtype), k = random_normal({keys, 2}, {1, 95}, 0.0, 1.0, dtype);
      const Tensor v = Tensor::full({keys, 2}, huge, dtype);
      const Tensor y = scaled_dot_product_attention(q.to(cuda), k.to(cuda), v.to(cuda)).to(Device::cpu());
      for (std::int64_t i = 0; i < 3; ++i) CHECK(std::abs(y.at({i, 0}) / huge - 1.0) < 1e-5);
    }
}

TEST_CASE("a NaN behind a mask, and logits without end") {
  const Tensor x = Tensor::from<float>({NAN, 1, 2, INFINITY, 1, 2}, {2, 3});
  const Tensor mask = Tensor::from<bool>({false, true, true, false, true, true}, {2, 3});
  check_alike(masked_softmax(x, mask), masked_softmax(x.to(cuda), mask.to(cuda)));
  const Tensor labels = Tensor::from<std::int64_t>({0, 1}, {2});
  for (const double odd : {infinity, -infinity, std::nan("")}) {
    Tensor logits = Tensor::from<float>({1, 0, 2, 3, 1, 2}, {2, 3});
    logits.slice(1, 1, 2).fill(odd);
    const auto loss = [&](const Tensor& a, const Tensor& b) { return cross_entropy(a, b); };
    check_alike(loss(logits, labels), loss(logits.to(cuda), labels.to(cuda)));
  }
}

TEST_CASE("indices of rows without elements are checked") {
  const Tensor empty_rows = Tensor::zeros({3, 0}).to(cuda);
  const auto refused = [](auto&& call) {
    try {
      call();
      device::synchronize(cuda);
    } catch (const IndexError&) {
      return true;
    }
    return false;
  };
  const auto ids = [](std::int64_t last) { return Tensor::from<std::int64_t>({0, last}, {2}).to(cuda); };
  CHECK(refused([&] { embedding(empty_rows, ids(99)); }));
  CHECK(refused([&] { index_select(empty_rows, 0, ids(-1)); }));
  CHECK_FALSE(refused([&] { embedding(empty_rows, ids(2)); }));
}

TEST_CASE("a product without terms is its bias, sign of zero included") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = Tensor::zeros({6, 0}, dtype), bias = Tensor::full({6}, -0.0, dtype);
    check_alike(linear(x, x, bias), linear(x.to(cuda), x.to(cuda), bias.to(cuda)));
  }
}

TEST_CASE("layer_norm of rows far from zero: the device computes in double, the CPU rounds the mean") {
  for (const double offset : {1.0, 1e2, 1e4, 1e5}) {
    const Tensor x = random_normal({6, 384}, {static_cast<std::uint64_t>(offset), 97}, offset, 1.0);
    const Tensor gamma = random_normal({384}, {1, 98}, 1.0, 0.1), beta = random_normal({384}, {2, 98});
    const auto wide = [](const Tensor& t) { return t.to(DType::f64); };
    const Tensor wanted = layer_norm(wide(x), wide(gamma), wide(beta));
    const auto worst = [&](const Tensor& y) {
      return max(abs(wide(y.to(Device::cpu())) - wanted).reshape({-1}), 0).item();
    };
    const double here = worst(layer_norm(x, gamma, beta));
    const double there = worst(layer_norm(x.to(cuda), gamma.to(cuda), beta.to(cuda)));
    MESSAGE("offset ", offset, ": the CPU is off by ", here, ", the device by ", there);
    CHECK(there < 1e-6);
    CHECK(here < 1e-6 + 4 * offset * 0x1p-24);
  }
}
