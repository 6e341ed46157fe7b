#include "permute/finder.h"

#include "core/base/error.h"
#include "core/call.h"
#include "core/ops.h"
#include "core/registry.h"

#include <cmath>
#include <doctest/doctest.h>
#include <functional>

using namespace eg;
using namespace eg::permute;

namespace {

using I = std::int64_t;

Tensor normal(const Shape& shape, std::uint64_t seed) { return random_normal(shape, {seed, 31}, 0.0, 1.0, DType::f64); }

double log2_factorial(I n) { return std::lgamma(static_cast<double>(n) + 1.0) / std::log(2.0); }

FoundGroup found(const TensorFunction& f, const std::vector<Tensor>& inputs, std::vector<Leg> legs) {
  return find_symmetries(f, inputs, {"test", std::move(legs)});
}

/// Attention of h heads on inputs (x, wq, wk, wv, wo), linear layers x W^T without biases.
TensorFunction attention_of(I heads) {
  return [heads](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const I tokens = in[0].size(0), inner = in[1].size(0);
    const auto split = [&](const Tensor& t) { return t.reshape({tokens, heads, inner / heads}).transpose(0, 1); };
    const Tensor q = split(linear(in[0], in[1])), k = split(linear(in[0], in[2])), v = split(linear(in[0], in[3]));
    const Tensor y = matmul(softmax(matmul(q, k, false, true) * 0.5), v).transpose(0, 1).reshape({tokens, inner});
    return {linear(y, in[4])};
  };
}

std::vector<Tensor> attention_inputs(I dim) {
  std::vector<Tensor> in{normal({5, dim}, 1)};
  for (std::uint64_t seed = 2; seed < 6; ++seed) in.push_back(normal({dim, dim}, seed) * 0.5);
  return in;
}

} // namespace

TEST_CASE("finder: a linear map needs its weight moved along") {
  const TensorFunction f = [](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {linear(in[0], in[1])}; };
  const std::vector<Tensor> in{normal({4, 9}, 1), normal({3, 9}, 2)};
  const FoundGroup both = found(f, in, {in_leg(0, -1), in_leg(1, -1)});
  CHECK(both.group.log2_count() == doctest::Approx(log2_factorial(9)));
  CHECK(both.maximal);
  CHECK(found(f, in, {in_leg(0, 0), out_leg(0, 0)}).group.log2_count() == doctest::Approx(log2_factorial(4)));
  const FoundGroup alone = found(f, {normal({4, 5}, 3), normal({3, 5}, 4)}, {in_leg(0, -1)});
  CHECK(alone.group.generators.empty());
  CHECK(alone.maximal);
}

TEST_CASE("finder: the rows of a masked attention are the automorphisms of its mask") {
  const auto open = [](bool seen) { return seen ? 0.0 : -1e9; };
  const std::vector<std::pair<I, std::function<double(I, I)>>> masks = {
      {6, [&](I i, I j) { return open(j <= i); }},
      {6, [&](I i, I j) { return open((i - j + 7) % 6 <= 2); }},
      {6, [](I i, I j) { return 0.7 * static_cast<double>((i - j + 6) % 6); }},
      {6, [&](I i, I j) { return open(i / 2 == j / 2 && j <= i); }},
      {12, [&](I i, I j) { return open(j < 7 || j <= i); }},
      {12, [&](I i, I j) { return open(i / 4 == j / 4); }},
      {12, [&](I i, I j) { return open(i / 3 == j / 3 && j <= i); }},
      {15, [&](I i, I j) { return open(i % 5 == j % 5); }},
  };
  for (std::size_t m = 0; m < masks.size(); ++m) {
    CAPTURE(m);
    const auto& [n, entry] = masks[m];
    std::vector<double> values;
    for (I i = 0; i < n; ++i)
      for (I j = 0; j < n; ++j) values.push_back(entry(i, j));
    const Tensor mask = Tensor::from<double>(values, {n, n}), wq = normal({8, 8}, 2), wk = normal({8, 8}, 3);
    const TensorFunction f = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      return {matmul(softmax(matmul(linear(in[0], wq), linear(in[0], wk), false, true) * 0.1 + mask), in[0])};
    };
    const FoundGroup rows = found(f, {normal({n, 8}, 1)}, {in_leg(0, 0), out_leg(0, 0)});
    CHECK(rows.group.log2_count() == doctest::Approx(automorphisms(mask).log2_count()));
    for (const Permutation& p : rows.group.generators) CHECK(is_automorphism(mask, p));
    if (n == 6) CHECK(rows.maximal);
  }
}

TEST_CASE("finder: what the papers' one P_C may be in multi-head attention, and what it may be when it is decoupled") {
  const auto tied = [](I heads, I dim) {
    std::vector<Leg> legs{in_leg(0, 1), out_leg(0, 1)};
    for (int w = 1; w < 5; ++w) legs.insert(legs.end(), {in_leg(w, 0), in_leg(w, 1)});
    return found(attention_of(heads), attention_inputs(dim), legs);
  };
  const FoundGroup small = tied(3, 6);
  CHECK(small.group.log2_count() == doctest::Approx(std::log2(48.0))); // S_2 wr S_3
  CHECK(small.maximal);
  CHECK(tied(4, 16).group.log2_count() == doctest::Approx(5 * log2_factorial(4))); // S_4 wr S_4
  CHECK(tied(1, 8).group.log2_count() == doctest::Approx(log2_factorial(8)));
  const FoundGroup decoupled =
      found(attention_of(4), attention_inputs(16),
            {in_leg(0, 1), in_leg(1, 1), in_leg(2, 1), in_leg(3, 1), in_leg(4, 0), out_leg(0, 1)});
  CHECK(decoupled.group.log2_count() == doctest::Approx(log2_factorial(16)));
  CHECK(decoupled.maximal);
  // Queries and keys alone: each head for itself.
  CHECK(found(attention_of(4), attention_inputs(16), {in_leg(1, 0), in_leg(2, 0)}).group.log2_count() ==
        doctest::Approx(4 * log2_factorial(4)));
}

TEST_CASE("finder: heads whose features do not move are found as runs, interleaved ones as combs") {
  // Head h of y is head h of x times a matrix that all heads share: whole heads move, features stay.
  const Tensor shared = normal({5, 5}, 9);
  const TensorFunction runs = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {matmul(in[0].reshape({3, 4, 5}), shared).reshape({3, 20})};
  };
  const FoundGroup heads = found(runs, {normal({3, 20}, 1)}, {in_leg(0, 1), out_leg(0, 1)});
  CHECK(heads.group.log2_count() == doctest::Approx(log2_factorial(4)));
  CHECK(!heads.maximal); // runs were a guess
  const TensorFunction combs = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {matmul(shared, in[0].reshape({5, 4})).reshape({20})};
  };
  CHECK(found(combs, {normal({20}, 2)}, {in_leg(0, 0), out_leg(0, 0)}).group.log2_count() ==
        doctest::Approx(log2_factorial(4)));
}

TEST_CASE("finder: convolution passes channels and no places, LayerNorm its features with gain and bias") {
  const TensorFunction conv = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {conv2d(in[0], in[1], {}, {.padding = {1, 1}})};
  };
  const std::vector<Tensor> in{normal({1, 5, 6, 6}, 1), normal({4, 5, 3, 3}, 2)};
  CHECK(found(conv, in, {in_leg(0, 1), in_leg(1, 1)}).group.log2_count() == doctest::Approx(log2_factorial(5)));
  CHECK(found(conv, in, {in_leg(1, 0), out_leg(0, 1)}).group.log2_count() == doctest::Approx(log2_factorial(4)));
  const FoundGroup places = found(conv, in, {in_leg(0, 3), out_leg(0, 3)});
  CHECK(places.group.generators.empty());
  CHECK(places.maximal);
  const TensorFunction norm = [](const std::vector<Tensor>& x) -> std::vector<Tensor> {
    return {layer_norm(x[0], x[1], x[2], 1e-5)};
  };
  const std::vector<Tensor> three{normal({4, 6}, 3), normal({6}, 4), normal({6}, 5)};
  CHECK(found(norm, three, {in_leg(0, 1), in_leg(1, 0), in_leg(2, 0), out_leg(0, 1)}).group.log2_count() ==
        doctest::Approx(log2_factorial(6)));
  const FoundGroup still = found(norm, three, {in_leg(0, 1), out_leg(0, 1)});
  CHECK(still.group.generators.empty());
  CHECK(still.maximal);
}

TEST_CASE("finder: rotary positions leave no permutation of a head's features") {
  const Tensor positions = Tensor::arange(4);
  const TensorFunction scores = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const auto turned = [&](const Tensor& t) {
      return rotary(t.reshape({1, 4, 1, 6}), positions, {.heads_first = false});
    };
    return {matmul(turned(in[0]).reshape({4, 6}), turned(in[1]).reshape({4, 6}), false, true)};
  };
  const FoundGroup features = found(scores, {normal({4, 6}, 1), normal({4, 6}, 2)}, {in_leg(0, 1), in_leg(1, 1)});
  CHECK(features.group.generators.empty());
  CHECK(features.maximal);
}

TEST_CASE("finder: every symmetry that a row declares is found whole") {
  int groups = 0;
  for (const OpDef* op : registry()) {
    if (op->symmetries == nullptr || op->samples == nullptr) continue;
    CAPTURE(op->name);
    for (const Sample& sample : op->samples(DType::f64))
      for (const Symmetry& symmetry : op->symmetries(sample)) {
        CAPTURE(symmetry.name);
        const TensorFunction f = [&](const std::vector<Tensor>& in) { return call(*op, in, sample.attrs); };
        I extent = 0;
        for (const Leg& leg : symmetry.legs)
          if (leg.side == Leg::Side::in && static_cast<std::size_t>(leg.index) < sample.in.size() &&
              sample.in[static_cast<std::size_t>(leg.index)].defined())
            extent = sample.in[static_cast<std::size_t>(leg.index)].size(leg.axis);
        if (extent < 2 || extent > 40) continue;
        const FoundGroup all = find_symmetries(f, sample.in, symmetry, {.tolerance = 1e-9, .brute = 1});
        CHECK(all.group.log2_count() == doctest::Approx(log2_factorial(extent)));
        CHECK(all.maximal);
        ++groups;
      }
  }
  CHECK(groups > 500);
}

TEST_CASE("finder: what cannot be asked is refused") {
  const TensorFunction same = [](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {in[0] * 1.0}; };
  const std::vector<Tensor> in{normal({3, 4}, 1)};
  CHECK_THROWS_AS(found(same, in, {}), ValueError);
  CHECK_THROWS_AS(found(same, in, {in_leg(4, 0)}), ValueError);
  CHECK_THROWS_AS(found(same, in, {in_leg(0, 0), in_leg(0, 1)}), ShapeError);
  CHECK_THROWS_AS(found(same, in, {in_leg(0, 5)}), Error);
  CHECK_THROWS_AS(found(same, {in[0] * INFINITY}, {in_leg(0, 0), out_leg(0, 0)}), ValueError);
}
