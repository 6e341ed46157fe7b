// Softmax, layer_norm, attention and cross_entropy where the laws do not look: large numbers, equal rows, ignored rows,
// and different ways to the same result.

#include "autograd/functional.h"
#include "autograd/tape.h"
#include "core/call.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/random.h"
#include "support/message.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <string>
#include <vector>

using namespace eg;
using eg::test::message_of;

namespace {

Tensor normal(const Shape& shape, std::uint64_t stream, DType dtype = DType::f64, double scale = 1.0) {
  return random_normal(shape, {77, stream}, 0.0, scale, dtype);
}

/// [B, T, 3 H D] as q, k, v [B, H, T, D]: views.
std::vector<Tensor> heads_of(const Tensor& qkv, std::int64_t heads) {
  const Shape& s = qkv.shape();
  const Tensor parts = qkv.reshape({s[0], s[1], 3, heads, s[2] / (3 * heads)}).permute({2, 0, 3, 1, 4});
  return {parts.select(0, 0), parts.select(0, 1), parts.select(0, 2)};
}

/// [B, H, T, D] as [B, T, H D].
Tensor merged(const Tensor& y) {
  const Shape& s = y.shape();
  return y.permute({0, 2, 1, 3}).reshape({s[0], s[2], s[1] * s[3]});
}

} // namespace

TEST_CASE("softmax: logits far from 0 lose nothing") {
  for (const double shift : {0.0, 1e4, -1e4}) {
    const Tensor y = softmax(Tensor::from<double>({shift, shift + 1.0, shift - 2.0}, {1, 3}));
    const double total = 1.0 + std::exp(1.0) + std::exp(-2.0);
    CHECK(y.at({0, 0}) == doctest::Approx(1.0 / total).epsilon(1e-12));
    CHECK(y.at({0, 1}) == doctest::Approx(std::exp(1.0) / total).epsilon(1e-12));
  }
  const Tensor extreme = softmax(Tensor::from<float>({1e30F, 0.0F, -1e30F, 1e30F}, {1, 4}));
  CHECK(extreme.to_vector<float>() == std::vector<float>{0.5F, 0.0F, 0.0F, 0.5F});
}

TEST_CASE("softmax: minus infinity gives 0, a NaN gives NaN") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(softmax(Tensor::from<double>({-inf, 0.0, 0.0}, {3})).to_vector<double>() == std::vector<double>{0.0, 0.5, 0.5});
  for (const double y : softmax(Tensor::from<double>({std::nan(""), 0.0, 1.0}, {3})).to_vector<double>())
    CHECK(std::isnan(y));
}

TEST_CASE("softmax and log_softmax: equal rows, long rows") {
  for (const std::int64_t n : {1, 15, 16, 17, 65, 1000}) {
    const Tensor y = softmax(Tensor::full({2, n}, 3.0, DType::f32));
    for (const float p : y.to_vector<float>()) CHECK(p == doctest::Approx(1.0 / static_cast<double>(n)).epsilon(1e-6));
    const Tensor l = log_softmax(Tensor::full({2, n}, -700.0, DType::f32));
    for (const float p : l.to_vector<float>())
      CHECK(p == doctest::Approx(-std::log(static_cast<double>(n))).epsilon(1e-6));
  }
}

TEST_CASE("softmax: the bits do not depend on which axis it is or where a row lies") {
  const Tensor x = normal({37, 65}, 1, DType::f32);
  CHECK(same_bits(softmax(x, 0), softmax(x.transpose(), 1).transpose().contiguous()));
  CHECK(same_bits(softmax(x).slice(0, 5, 6).contiguous(), softmax(x.slice(0, 5, 6))));
}

TEST_CASE("layer_norm: a constant row gives beta") {
  const Tensor gamma = normal({33}, 2), beta = normal({33}, 3);
  const Tensor y = layer_norm(Tensor::full({2, 33}, 5.0, DType::f64), gamma, beta);
  CHECK(relative_error(y, beta.expand({2, 33})) < 1e-14);
}

TEST_CASE("layer_norm: rows far from 0 keep their variance in f32") {
  const Tensor x = normal({4, 512}, 4, DType::f64);
  const Tensor shifted = (x + 1000.0).to(DType::f32);
  CHECK(relative_error(layer_norm(shifted).to(DType::f64), layer_norm(shifted.to(DType::f64))) < 2e-5);
}

TEST_CASE("attention: one row of equal scores averages the values") {
  const Tensor q = Tensor::zeros({1, 3, 4}, DType::f64), v = normal({1, 5, 2}, 5);
  const Tensor y = scaled_dot_product_attention(q, normal({1, 5, 4}, 6), v);
  CHECK(relative_error(y, mean(v, {1}, true).expand({1, 3, 2})) < 1e-14);
}

TEST_CASE("attention: scores far from 0 neither overflow nor vanish") {
  const Tensor q = normal({1, 7, 8}, 7, DType::f32, 60.0), k = normal({1, 9, 8}, 8, DType::f32, 60.0);
  const Tensor v = normal({1, 9, 8}, 9, DType::f32);
  const Tensor expected = scaled_dot_product_attention(q.to(DType::f64), k.to(DType::f64), v.to(DType::f64));
  CHECK(relative_error(scaled_dot_product_attention(q, k, v).to(DType::f64), expected) < 1e-2);
}

TEST_CASE("attention: views of a packed projection give the bits of packed operands") {
  const Tensor qkv = normal({2, 33, 3 * 2 * 16}, 10, DType::f32);
  const std::vector<Tensor> views = heads_of(qkv, 2);
  const Tensor y = scaled_dot_product_attention(views[0], views[1], views[2]);
  CHECK(
      same_bits(y, scaled_dot_product_attention(views[0].contiguous(), views[1].contiguous(), views[2].contiguous())));
  CHECK(same_bits(merged(y).contiguous(), attention_qkv(qkv, 2)));
}

TEST_CASE("attention: fused, packed and explicit agree, with their gradients") {
  struct Case {
    std::int64_t batch, tokens, heads, head_dim;
  };
  // 197 tokens in f64 make more than one tile of queries.
  for (const Case& c : {Case{2, 65, 2, 16}, Case{1, 197, 1, 8}, Case{2, 1, 1, 1}, Case{1, 300, 2, 4}}) {
    CAPTURE(c.tokens);
    const Tensor qkv = normal({c.batch, c.tokens, 3 * c.heads * c.head_dim}, 11);
    const Tensor g = normal({c.batch, c.tokens, c.heads * c.head_dim}, 12);
    const auto run = [&](const auto& f) {
      Tape tape;
      const Tensor y = f(qkv);
      return std::vector<Tensor>{y, tape.gradient(y, {qkv}, g)[0]};
    };
    const auto explicit_path = run([&](const Tensor& x) {
      const std::vector<Tensor> views = heads_of(x, c.heads);
      return merged(attention_explicit(views[0], views[1], views[2]).output);
    });
    const auto general = run([&](const Tensor& x) {
      const std::vector<Tensor> views = heads_of(x, c.heads);
      return merged(scaled_dot_product_attention(views[0], views[1], views[2]));
    });
    const auto fused = run([&](const Tensor& x) { return attention_qkv(x, c.heads); });
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(relative_error(general[i], explicit_path[i]) < 1e-13);
      CHECK(relative_error(fused[i], explicit_path[i]) < 1e-13);
    }
  }
}

TEST_CASE("attention: second derivatives of the fused path are those of the explicit one") {
  const Tensor qkv = normal({2, 5, 12}, 13), direction = normal({2, 5, 12}, 14);
  const auto hessian_vector = [&](const auto& f) {
    Tape outer;
    Tensor inner;
    {
      Tape tape;
      const Tensor y = f(qkv);
      inner = sum(tape.gradient(sum(y * y * y), {qkv})[0] * direction);
    }
    return outer.gradient(inner, {qkv})[0];
  };
  const Tensor expected = hessian_vector([](const Tensor& x) {
    const std::vector<Tensor> views = heads_of(x, 2);
    return merged(attention_explicit(views[0], views[1], views[2]).output);
  });
  const Tensor general = hessian_vector([](const Tensor& x) {
    const std::vector<Tensor> views = heads_of(x, 2);
    return merged(scaled_dot_product_attention(views[0], views[1], views[2]));
  });
  CHECK(relative_error(general, expected) < 1e-12);
  CHECK(relative_error(hessian_vector([](const Tensor& x) { return attention_qkv(x, 2); }), expected) < 1e-12);
}

TEST_CASE("attention: keys and values shared by heads through expand") {
  const Tensor q = normal({3, 4, 5, 8}, 15), k = normal({3, 1, 6, 8}, 16), v = normal({3, 1, 6, 8}, 17);
  const Tensor y = scaled_dot_product_attention(q, k.expand({3, 4, 6, 8}), v.expand({3, 4, 6, 8}));
  CHECK(relative_error(y, attention_explicit(q, k, v).output) < 1e-13);
}

TEST_CASE("attention: a gradient through the log-sum-exp output") {
  const Tensor q = normal({2, 5, 4}, 18), k = normal({2, 6, 4}, 19), v = normal({2, 6, 3}, 20), w = normal({2, 5}, 21);
  Tape tape;
  const Tensor lse = call(scaled_dot_product_attention_op, {q, k, v}, {{"scale", 0.5}})[1];
  const auto fused = tape.gradient(lse, {q, k, v}, w);
  Tape explicit_tape;
  const Tensor direct = log(sum(exp(matmul(q, k, false, true) * 0.5), {-1}));
  const auto expected = explicit_tape.gradient(direct, {q, k, v}, w);
  CHECK(relative_error(lse, direct) < 1e-14);
  for (std::size_t i = 0; i < 3; ++i) CHECK(relative_error(fused[i], expected[i]) < 1e-13);
}

TEST_CASE("cross_entropy: is log_softmax at the label") {
  const Tensor x = normal({5, 33}, 22);
  const Tensor labels = Tensor::from<std::int64_t>({0, 32, 7, 7, 16}, {5});
  const Tensor picked = gather(log_softmax(x), 1, labels.reshape({5, 1}));
  CHECK(cross_entropy(x, labels).item() == doctest::Approx(-mean(picked).item()).epsilon(1e-14));
  const double smoothed = -0.9 * mean(picked).item() - 0.1 * mean(log_softmax(x)).item();
  CHECK(cross_entropy(x, labels, 0.1).item() == doctest::Approx(smoothed).epsilon(1e-14));
}

TEST_CASE("cross_entropy: ignored rows neither count nor get a gradient") {
  const Tensor x = normal({4, 7}, 23);
  const Tensor labels = Tensor::from<std::int64_t>({3, -100, 5, -100}, {4});
  Tape tape;
  const Tensor loss = cross_entropy(x, labels);
  const Tensor g = tape.gradient(loss, {x})[0];
  const Tensor kept = stack({x.select(0, 0), x.select(0, 2)}, 0);
  CHECK(loss.item() == cross_entropy(kept, Tensor::from<std::int64_t>({3, 5}, {2})).item());
  for (std::int64_t j = 0; j < 7; ++j) {
    CHECK(g.at({1, j}) == 0.0);
    CHECK(g.at({3, j}) == 0.0);
    CHECK(g.at({0, j}) != 0.0);
  }
}

TEST_CASE("cross_entropy: what an ignored row holds does not reach the second derivative") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double large : {1000.0, inf}) {
    const Tensor x = Tensor::from<double>({0.5, -1.0, 2.0, large, 0.0, 1.0}, {2, 3});
    const Tensor labels = Tensor::from<std::int64_t>({1, -100}, {2});
    const auto loss_of = [&](const Tensor& l) {
      return [l](const std::vector<Tensor>& in) { return cross_entropy(in[0], l, 0.1); };
    };
    const Tensor all = hvp(loss_of(labels), {x}, {Tensor::ones({2, 3}, DType::f64) + x.slice(0, 0, 1)}).products[0];
    const Tensor alone = hvp(loss_of(labels.slice(0, 0, 1)), {x.slice(0, 0, 1)}, {x.slice(0, 0, 1) + 1.0}).products[0];
    for (std::int64_t j = 0; j < 3; ++j) {
      CHECK(all.at({0, j}) == alone.at({0, j}));
      CHECK(all.at({1, j}) == 0.0);
    }
  }
}

TEST_CASE("nll_loss: what an ignored row holds reaches neither the loss nor the gradient") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = Tensor::from<double>({-0.5, -1.0, -inf, std::nan("")}, {2, 2});
  const Tensor labels = Tensor::from<std::int64_t>({1, -100}, {2});
  const Tensor weight = Tensor::from<double>({inf, 2.0}, {2});
  for (const char* reduction : {"mean", "sum", "none"}) {
    Tape tape;
    const Tensor loss = nll_loss(x, labels, weight, -100, reduction);
    const double divisor = std::string(reduction) == "mean" ? 2.0 : 1.0;
    const Tensor g = tape.gradient(sum(loss), {x})[0];
    CHECK(sum(loss).item() == 2.0 / divisor);
    CHECK(g.to_vector<double>() == std::vector<double>{0.0, -2.0 / divisor, 0.0, 0.0});
  }
}

TEST_CASE("nll_loss: the mean by weights of sum 0 is NaN, in the kernel and in plain loops") {
  const std::vector<Tensor> in = {Tensor::from<double>({-0.5, -1.0}, {1, 2}), Tensor::from<std::int64_t>({1}, {1}),
                                  Tensor::from<double>({1.0, 0.0}, {2})};
  CHECK(std::isnan(nll_loss(in[0], in[1], in[2]).item()));
  const Attrs attrs = completed_attributes(nll_loss_op, {});
  CHECK(std::isnan(nll_loss_op.reference(OpArgs{nll_loss_op, in, attrs})[0].item()));
}

TEST_CASE("cross_entropy: when every row is ignored, the mean is 0 and so is the gradient") {
  const Tensor x = normal({3, 4}, 24, DType::f32);
  const Tensor labels = Tensor::full({3}, -100, DType::i64);
  Tape tape;
  const Tensor loss = cross_entropy(x, labels, 0.1);
  CHECK(loss.item() == 0.0);
  for (const float d : tape.gradient(loss, {x})[0].to_vector<float>()) CHECK(d == 0.0F);
}

TEST_CASE("cross_entropy: large logits and equal logits") {
  const Tensor labels = Tensor::from<std::int64_t>({1, 0}, {2});
  const Tensor large = Tensor::from<float>({1e4F, 1e4F + 2.0F, 0.0F, 5e3F, 0.0F, 0.0F}, {2, 3});
  CHECK(cross_entropy(large, labels, 0.0, -100, "sum").item() ==
        doctest::Approx(std::log1p(std::exp(-2.0))).epsilon(1e-6));
  const Tensor equal = Tensor::full({2, 1000}, 42.0, DType::f32);
  CHECK(cross_entropy(equal, labels).item() == doctest::Approx(std::log(1000.0)).epsilon(1e-6));
}

TEST_CASE("cross_entropy: long rows that start anywhere in memory") {
  const std::int64_t classes = 10007; // rows lie on no vector border, and their gradient is written past the caches
  const Tensor labels = Tensor::from<std::int64_t>({0, 10006, 5000}, {3});
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = normal({3, classes}, 25, dtype);
    const auto gradient = [](const Tensor& logits, const Tensor& label) {
      Tape tape;
      return tape.gradient(cross_entropy(logits, label, 0.1, -100, "sum"), {logits})[0];
    };
    const Tensor g = gradient(x, labels);
    Tape tape;
    const Tensor l = log_softmax(x);
    const Tensor explicit_loss = sum(gather(l, 1, labels.reshape({3, 1}))) * -0.9 - sum(mean(l, {-1})) * 0.1;
    CHECK(relative_error(g, tape.gradient(explicit_loss, {x})[0]) < (dtype == DType::f32 ? 1e-5 : 1e-13));
    for (int r = 0; r < 3; ++r)
      CHECK(same_bits(g.slice(0, r, r + 1).contiguous(), gradient(x.slice(0, r, r + 1), labels.slice(0, r, r + 1))));
  }
}

TEST_CASE("cross_entropy: a label out of range names itself and the classes, before anything is written") {
  const Tensor x = Tensor::ones({2, 10});
  const std::string text = message_of([&] { cross_entropy(x, Tensor::from<std::int64_t>({3, 10}, {2})); });
  CHECK(text.find("cross_entropy: label 10 of row 1 is outside [0, 10): there are 10 classes") != std::string::npos);
  CHECK_THROWS_AS(cross_entropy(x, Tensor::from<std::int64_t>({3, -2}, {2})), IndexError);
}

TEST_CASE("normalising ops: extents of 0") {
  CHECK(softmax(Tensor::zeros({0, 3})).shape() == Shape{0, 3});
  CHECK(layer_norm(Tensor::zeros({2, 0})).shape() == Shape{2, 0});
  CHECK(attention_qkv(Tensor::zeros({2, 0, 12}), 2).shape() == Shape{2, 0, 4});
  CHECK(cross_entropy(Tensor::zeros({0, 3}), Tensor::zeros({0}, DType::i64)).item() == 0.0);
  CHECK_THROWS_AS(scaled_dot_product_attention(Tensor::ones({2, 3}), Tensor::ones({0, 3}), Tensor::ones({0, 3})),
                  ShapeError);
}
