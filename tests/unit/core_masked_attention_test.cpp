// Attention with masks, causal, and with shared heads, and masked_softmax, where the laws do not look: infinities,
// larger extents, and different ways to the same result.

#include "autograd/check.h"
#include "autograd/tape.h"
#include "core/call.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/random.h"
#include "core/reduction.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <utility>

using namespace eg;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor normal(const Shape& shape, std::uint64_t stream, DType dtype = DType::f64) {
  return random_normal(shape, {78, stream}, 0.0, 1.0, dtype);
}

struct Case {
  const char* name;
  Shape q, k, mask;
  bool causal;
};

const Case cases[] = {{"a mask for each head", {2, 4, 33, 8}, {2, 4, 65, 8}, {2, 4, 33, 65}, false},
                      {"a mask shared by the batch", {40, 2, 9, 4}, {40, 2, 9, 4}, {2, 9, 9}, false},
                      {"a mask of keys, causal", {3, 2, 70, 8}, {3, 2, 130, 8}, {3, 1, 1, 130}, true},
                      {"causal, four tiles", {2, 8, 250, 16}, {2, 8, 250, 16}, {}, true},
                      {"three blocks of keys, two tiles", {1, 2, 300, 8}, {1, 2, 310, 8}, {1, 1, 310}, false},
                      {"causal, more queries than keys", {1, 2, 150, 8}, {1, 2, 40, 8}, {}, true},
                      {"causal, two tiles, of which one sees nothing", {1, 1, 520, 8}, {1, 1, 100, 8}, {}, true},
                      {"one token beside a cache", {2, 6, 1, 8}, {2, 2, 77, 8}, {}, true},
                      {"groups of three heads, a mask", {2, 6, 20, 8}, {2, 2, 20, 8}, {20, 20}, false},
                      {"groups of two heads, causal", {2, 8, 130, 8}, {2, 4, 130, 8}, {}, true}};

/// Output and gradients of all inputs of <y, cotangent> for one way to compute y.
template <class F> std::vector<Tensor> results(const std::vector<Tensor>& in, F&& attention) {
  Tape tape;
  const Tensor y = attention(in);
  const Tensor value = sum(y * normal(y.shape(), 99));
  std::vector<Tensor> wanted;
  for (const Tensor& x : in)
    if (x.defined()) wanted.push_back(x);
  std::vector<Tensor> all = {y};
  for (const Tensor& g : tape.gradient(value, wanted)) all.push_back(g);
  return all;
}

} // namespace

TEST_CASE("attention: masked, causal and grouped calls agree with the explicit ones, with their gradients") {
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const Tensor mask = c.mask.rank() > 0 ? normal(c.mask, 4) : Tensor{};
    const std::vector<Tensor> in = {normal(c.q, 1), normal(c.k, 2), normal(c.k, 3), mask};
    const auto options = [&](const std::vector<Tensor>& x) {
      return AttentionOptions{.scale = 0.3, .mask = x[3], .causal = c.causal};
    };
    const auto fused =
        results(in, [&](const auto& x) { return scaled_dot_product_attention(x[0], x[1], x[2], options(x)); });
    const auto plain =
        results(in, [&](const auto& x) { return attention_explicit(x[0], x[1], x[2], options(x)).output; });
    REQUIRE(fused.size() == plain.size());
    for (std::size_t i = 0; i < fused.size(); ++i) {
      CAPTURE(i);
      CHECK(relative_error(fused[i], plain[i]) < 1e-12);
    }
  }
}

TEST_CASE("attention: the packed form with masks is that of its heads") {
  const Tensor qkv = normal({2, 9, 3 * 2 * 4}, 11), mask = normal({2, 1, 9, 9}, 12);
  const Tensor parts = qkv.reshape({2, 9, 3, 2, 4}).permute({2, 0, 3, 1, 4});
  for (const bool causal : {false, true}) {
    const AttentionOptions options{.mask = mask, .causal = causal};
    const Tensor packed_form = attention_qkv(qkv, 2, options);
    const Tensor by_head =
        scaled_dot_product_attention(parts.select(0, 0), parts.select(0, 1), parts.select(0, 2), options);
    CHECK(relative_error(packed_form, by_head.permute({0, 2, 1, 3}).reshape({2, 9, 8})) < 1e-14);
  }
}

TEST_CASE("attention: hidden keys do not matter, whatever they hold") {
  const Tensor q = normal({2, 3, 4}, 21), k = normal({2, 5, 4}, 22), v = normal({2, 5, 4}, 23);
  Tensor seen = Tensor::full({5}, 1.0, DType::boolean);
  seen.mutable_data<bool>("test")[4] = false;
  const Tensor y = scaled_dot_product_attention(q, k, v, AttentionOptions{.mask = seen});
  const Tensor shorter = scaled_dot_product_attention(q, k.slice(1, 0, 4), v.slice(1, 0, 4));
  CHECK(relative_error(y, shorter) < 1e-14);
  Tensor added = Tensor::zeros({5}, DType::f64);
  added.mutable_data<double>("test")[4] = -infinity;
  CHECK(relative_error(scaled_dot_product_attention(q, k, v, AttentionOptions{.mask = added}), shorter) < 1e-14);
}

TEST_CASE("attention: a query that sees nothing gives 0 and no gradient, by every kind of mask") {
  Tensor added = Tensor::zeros({3, 5}, DType::f64);
  for (int j = 0; j < 5; ++j) added.mutable_data<double>("test")[j] = -infinity;
  Tensor seen = Tensor::full({3, 5}, 1.0, DType::boolean);
  for (int j = 0; j < 5; ++j) seen.mutable_data<bool>("test")[j] = false;
  for (const Tensor& mask : {added, seen}) {
    const Tensor q = normal({1, 3, 4}, 31), k = normal({1, 5, 4}, 32), v = normal({1, 5, 4}, 33);
    Tape tape;
    const Tensor y = scaled_dot_product_attention(q, k, v, AttentionOptions{.mask = mask});
    const auto gradients = tape.gradient(sum(y * y), {q, k});
    for (int j = 0; j < 4; ++j) {
      CHECK(y.data<double>()[j] == 0.0);
      CHECK(gradients[0].data<double>()[j] == 0.0);
    }
    for (int j = 4; j < 12; ++j) CHECK(gradients[0].data<double>()[j] != 0.0);
    for (int j = 0; j < 20; ++j) CHECK(std::isfinite(gradients[1].data<double>()[j]));
  }
}

TEST_CASE("attention: the first keys of a query are hidden, and then the largest score rises from block to block") {
  const std::int64_t keys = 700;
  const Tensor q = Tensor::ones({3, 4}), k = Tensor::ones({keys, 4}), v = normal({keys, 5}, 51, DType::f32);
  Tensor mask = Tensor::zeros({3, keys});
  float* const added = mask.mutable_data<float>("test");
  for (std::int64_t j = 0; j < keys; ++j) {
    added[j] = j < 400 ? -std::numeric_limits<float>::infinity() : 0.0F;
    added[keys + j] = 0.5F * static_cast<float>(j); // the last keys outweigh the others
    added[2 * keys + j] = -std::numeric_limits<float>::infinity();
  }
  const auto out = call(scaled_dot_product_attention_op, {q, k, v, mask}, {});
  const auto wide = call(scaled_dot_product_attention_op,
                         {q.to(DType::f64), k.to(DType::f64), v.to(DType::f64), mask.to(DType::f64)}, {});
  CHECK(relative_error(out[0].to(DType::f64), wide[0]) < 1e-6);
  CHECK(relative_error(out[0].slice(0, 0, 1), mean(v.slice(0, 400, keys), {0}, true)) < 1e-6);
  CHECK(out[1].data<float>()[0] == doctest::Approx(2.0 + std::log(300.0)));
  CHECK(out[1].data<float>()[1] == doctest::Approx(2.0 + 0.5 * 699 - std::log(1.0 - std::exp(-0.5))));
  CHECK(out[1].data<float>()[2] == 0.0F);
  for (int j = 10; j < 15; ++j) CHECK(out[0].data<float>()[j] == 0.0F);
}

// 256 queries are cut into blocks of 240 keys in f32, of 128 in f64.
TEST_CASE("attention: scores of minus infinity without a mask weigh nothing, in whichever block of keys they lie") {
  const std::int64_t keys = 700;
  for (const DType dtype : {DType::f32, DType::f64})
    for (const auto& [from, to] :
         {std::pair<std::int64_t, std::int64_t>{0, 256}, {256, 512}, {512, 700}, {1, 700}, {0, 700}}) {
      const std::int64_t first = from, last = to; // clang 14 captures no structured binding
      CAPTURE(first);
      CAPTURE(last);
      const Tensor q = Tensor::ones({256, 4}, dtype), v = normal({keys, 5}, 61, dtype);
      Tensor k = normal({keys, 4}, 62, DType::f64);
      for (std::int64_t i = 4 * first; i < 4 * last; ++i) k.mutable_data<double>("test")[i] = -infinity;
      const std::vector<Tensor> in = {q, k.to(dtype), v};
      const auto fused =
          results(in, [](const auto& x) { return scaled_dot_product_attention(x[0], x[1], x[2]).to(DType::f64); });
      const auto plain =
          results(in, [](const auto& x) { return attention_explicit(x[0], x[1], x[2]).output.to(DType::f64); });
      const bool all = last - first == keys;
      for (const std::size_t i : {0, 3}) { // y and the gradient of v; those of q and k hold 0 times infinity
        for (const double x : fused[i].to(DType::f64).template to_vector<double>()) CHECK(std::isnan(x) == all);
        if (!all) CHECK(relative_error(fused[i], plain[i]) < (dtype == DType::f32 ? 1e-5 : 1e-13));
      }
    }
}

TEST_CASE("masked_softmax: rows of minus infinity are 0, a NaN stays one") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = Tensor::from<double>({-infinity, -infinity, 1.0, -infinity, nan, -infinity}, {3, 2});
  const Tensor y = masked_softmax(x);
  CHECK(y.data<double>()[0] == 0.0);
  CHECK(y.data<double>()[1] == 0.0);
  CHECK(y.data<double>()[2] == 1.0);
  CHECK(y.data<double>()[3] == 0.0);
  CHECK(std::isnan(y.data<double>()[4]));
  CHECK(std::isnan(y.data<double>()[5]));
}

TEST_CASE("masked_softmax: without a mask it has the bits of softmax") {
  const Tensor x = normal({3, 5, 37}, 41, DType::f32);
  CHECK(relative_error(masked_softmax(x), softmax(x)) == 0.0);
}

TEST_CASE("rms_norm: squares that overflow or vanish") {
  for (const double size : {1e30, 1e-30}) {
    const Tensor x = Tensor::from<float>({static_cast<float>(3.0 * size), static_cast<float>(-4.0 * size)}, {1, 2});
    const Tensor y = rms_norm(x, {}, 0.0);
    CHECK(y.data<float>()[0] == doctest::Approx(3.0 / std::sqrt(12.5)).epsilon(1e-6));
    CHECK(y.data<float>()[1] == doctest::Approx(-4.0 / std::sqrt(12.5)).epsilon(1e-6));
  }
}

TEST_CASE("rms_norm: exact rows whose squares leave the range, forward and backward") {
  const ReductionScope exact(Reduction::exact);
  const double root = std::sqrt(12.5);
  for (const auto& [dtype, magnitude] :
       {std::pair{DType::f32, 1e20}, {DType::f32, 1e-30}, {DType::f64, 1e200}, {DType::f64, 1e-200}}) {
    const double size = magnitude; // clang 14 captures no structured binding
    CAPTURE(size);
    const Tensor x = Tensor::from<double>({3.0 * size, -4.0 * size}, {1, 2}).to(dtype);
    const Tensor g = Tensor::from<double>({1.0, 0.0}, {1, 2}).to(dtype);
    Tape tape;
    const Tensor y = rms_norm(x, {}, 0.0);
    const Tensor dx = tape.gradient(sum(y * g), {x})[0];
    CHECK(y.at({0, 0}) == doctest::Approx(3.0 / root).epsilon(1e-6));
    CHECK(y.at({0, 1}) == doctest::Approx(-4.0 / root).epsilon(1e-6));
    CHECK(dx.at({0, 0}) * size == doctest::Approx(0.64 / root).epsilon(1e-6)); // r (g - xh mean(g xh))
    CHECK(dx.at({0, 1}) * size == doctest::Approx(0.48 / root).epsilon(1e-6));
  }
  // A row of tiny numbers beside eps is divided by the root of eps.
  const Tensor tiny = Tensor::full({1, 3}, 1e-200, DType::f64);
  CHECK(rms_norm(tiny, {}, 1e-6).at({0, 0}) == doctest::Approx(1e-197).epsilon(1e-12));
}

TEST_CASE("rotary: products of turned queries and keys depend on the distance alone") {
  const Tensor q = normal({1, 1, 1, 8}, 51), k = normal({1, 1, 1, 8}, 52);
  const auto at = [](std::int64_t p) { return Tensor::from<std::int64_t>({p}, {1}); };
  for (const bool interleaved : {false, true}) {
    const RotaryOptions options{.interleaved = interleaved};
    const auto product = [&](std::int64_t p, std::int64_t r) {
      return sum(rotary(q, at(p), options) * rotary(k, at(r), options)).item();
    };
    CHECK(product(7, 3) == doctest::Approx(product(104, 100)).epsilon(1e-12));
    CHECK(product(7, 3) != doctest::Approx(product(8, 3)).epsilon(1e-6));
  }
}

TEST_CASE("batch_norm: with its own statistics the inference form gives the same") {
  const Tensor x = normal({6, 5, 3, 4}, 61), gamma = normal({5}, 62), beta = normal({5}, 63);
  const BatchNormResult batch = batch_norm(x, gamma, beta);
  CHECK(relative_error(batch_norm_inference(x, batch.mean, batch.variance, gamma, beta), batch.y) < 1e-13);
  CHECK(relative_error(group_norm(x, 5, gamma, beta), instance_norm(x, gamma, beta)) == 0.0);
}

TEST_CASE("drop_path: keeps whole samples, scaled, at the rate that was asked for") {
  const Tensor y = drop_path(Tensor::ones({4000, 2}), 0.25, {5, 6});
  int kept = 0;
  for (int b = 0; b < 4000; ++b) {
    const float a = y.data<float>()[2 * b];
    CHECK(a == y.data<float>()[2 * b + 1]);
    if (a == 0.0F) continue;
    ++kept;
    CHECK(a == doctest::Approx(1.0 / 0.75));
  }
  CHECK(std::abs(kept - 3000) < 140); // five standard deviations
}
