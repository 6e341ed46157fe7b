// Rows that are made of other operations, and rules, may compute in one pass where nothing records these: the bits are
// the same.

#include "autograd/tape.h"
#include "core/ops.h"
#include "core/random.h"
#include "core/reduction.h"
#include "core/registry.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace eg;

namespace {

using Outputs = std::vector<Tensor>;

/// The same bits but for those of a NaN, whose sign may differ.
bool same_but_nan(const Tensor& a, const Tensor& b) {
  if (same_bits(a, b)) return true;
  if (!flows(a) || a.dtype() != b.dtype() || !same_bits(isnan(a), isnan(b))) return false;
  return same_bits(masked_fill(a, isnan(a), 0.0), masked_fill(b, isnan(b), 0.0));
}

/// What f gives while a tape records it and while nothing does; "" where `same` holds for all outputs.
template <class F> std::string difference(F f, bool same(const Tensor&, const Tensor&) = same_bits) {
  Outputs recorded;
  {
    const Tape tape;
    recorded = f();
  }
  const Outputs alone = f();
  for (std::size_t o = 0; o < alone.size(); ++o)
    if (!same(alone[o], recorded[o])) return "output " + std::to_string(o);
  return alone.size() == recorded.size() ? "" : "numbers of outputs";
}

struct Draw {
  std::mt19937 random{20261128};
  std::uint64_t tag = 0;

  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); }
  Tensor normal(const Shape& shape, DType dtype) {
    Tensor x = random_normal(shape, RandomKey{1128, ++tag}).to(dtype);
    if (shape.rank() < 2 || below(3) > 0) return x;
    return x.transpose(0, 1).contiguous().transpose(0, 1); // not packed
  }
  /// From a few elements to some tasks' shares, seldom a multiple of anything.
  Shape shape() {
    const std::int64_t most[] = {3, 70, 3000, 200000};
    const std::int64_t n = 1 + below(most[below(4)]), columns = 1 + below(n);
    return {(n + columns - 1) / columns, columns};
  }
};

} // namespace

TEST_CASE("rows made of others: samples have the same bits recorded and not") {
  int rows = 0;
  for (const Reduction mode : {Reduction::fast, Reduction::exact})
    for (const OpDef* op : registry()) {
      if (op->body == nullptr || (mode == Reduction::exact && !op->no_exact.empty())) continue;
      ++rows;
      for (const DType dtype : {DType::f32, DType::f64})
        for (const Sample& sample : op->samples(dtype)) {
          CAPTURE(op->name);
          CAPTURE(sample.note);
          const ReductionScope scope(mode);
          CHECK(difference([&] { return call(*op, sample.in, sample.attrs); }) == "");
        }
    }
  CHECK(rows > 40);
}

TEST_CASE("losses and sums of products: large operands have the same bits recorded and not") {
  Draw draw;
  for (int round = 0; round < 150; ++round) {
    const DType dtype = round % 2 == 0 ? DType::f32 : DType::f64;
    const Shape shape = draw.shape();
    const Tensor x = draw.normal(shape, dtype), a = draw.normal(shape, dtype), b = draw.normal(shape, dtype);
    const double number = draw.below(2) == 0 ? std::ldexp(1.0, static_cast<int>(draw.below(5)) - 2) : 0.3;
    const char* const word = draw.below(2) == 0 ? "mean" : "sum";
    const Tensor minus = neg(Tensor::zeros(shape, dtype));                  // -0, which 1 x + 0 would make +0
    const Tensor huge = affine(x, dtype == DType::f32 ? 1e25 : 1e200, 0.0); // whose squares leave the type
    const ReductionScope scope(draw.below(4) == 0 ? Reduction::exact : Reduction::fast);
    CAPTURE(shape.str());
    CHECK(difference([&]() -> Outputs {
            return {mse_loss(x, a, word),
                    mse_loss(huge, a, word),
                    l1_loss(x, a, word),
                    l1_loss(huge, a, word),
                    smooth_l1_loss(x, a, number, word),
                    huber_loss(x, a, number, word),
                    addcmul(x, a, b, number),
                    addcmul(minus, minus, affine(b, 0.0, 1.0), 1.0),
                    addcdiv(x, a, b, number),
                    addcmul(x, a.slice(0, 0, 1), b, 1.0)};
          }) == "");
  }
}

/// Arguments of group_norm; gamma and beta are often missing.
struct Channels {
  std::int64_t groups, count;
  Tensor x, gamma, beta;

  Channels(Draw& draw, DType dtype, std::int64_t most_places)
      : groups(1 + draw.below(4)), count(groups * (1 + draw.below(5))),
        x(draw.normal({1 + draw.below(9), count, 1 + draw.below(most_places)}, dtype)) {
    if (draw.below(3) > 0) gamma = draw.normal({count}, dtype);
    if (draw.below(3) > 0) beta = draw.normal({count}, dtype);
  }
};

/// group_norm as the operations that it stands for.
Tensor composed_group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma, const Tensor& beta) {
  const std::int64_t rows = x.size(0) * groups;
  Tensor y = reshape(layer_norm(reshape(x, {rows, x.numel() / rows})), x.shape());
  const auto beside = [](const Tensor& vector) { return reshape(vector, {vector.numel(), 1}); };
  if (gamma.defined()) y = y * beside(gamma);
  return beta.defined() ? y + beside(beta) : y;
}

TEST_CASE("norms of channels: large operands have the bits of their operations") {
  Draw draw;
  for (int round = 0; round < 60; ++round) {
    const DType dtype = round % 2 == 0 ? DType::f32 : DType::f64;
    const Channels drawn(draw, dtype, 2000);
    const Tensor &x = drawn.x, &gamma = drawn.gamma, &beta = drawn.beta;
    const Tensor mean = draw.normal({drawn.count}, dtype), variance = square(draw.normal({drawn.count}, dtype));
    const ReductionScope scope(draw.below(4) == 0 ? Reduction::exact : Reduction::fast);
    CAPTURE(x.shape().str());
    CHECK(same_bits(group_norm(x, drawn.groups, gamma, beta), composed_group_norm(x, drawn.groups, gamma, beta)));
    CHECK(same_bits(instance_norm(x, gamma, beta), composed_group_norm(x, drawn.count, gamma, beta)));
    CHECK(difference([&]() -> Outputs { return {batch_norm_inference(x, mean, variance, gamma, beta)}; }) == "");
  }
}

/// The gradients of what f gives by all of x, for random cotangents.
template <class F> Outputs gradients(const Outputs& x, std::uint64_t tag, F f) {
  Tape tape;
  const Outputs y = f();
  Outputs ys, xs, cotangents;
  for (const Tensor& output : y)
    if (flows(output)) {
      ys.push_back(output);
      cotangents.push_back(random_normal(output.shape(), RandomKey{1129, ++tag}).to(output.dtype()));
    }
  std::copy_if(x.begin(), x.end(), std::back_inserter(xs), flows);
  return xs.empty() || ys.empty() ? Outputs{} : tape.gradient(ys, xs, cotangents);
}

TEST_CASE("rules: samples have the same gradients recorded and not") {
  int rows = 0;
  for (const Reduction mode : {Reduction::fast, Reduction::exact})
    for (const OpDef* op : registry()) {
      if (!has_gradient(*op) || (mode == Reduction::exact && !op->no_exact.empty())) continue;
      ++rows;
      for (const DType dtype : {DType::f32, DType::f64})
        for (const Sample& sample : op->samples(dtype)) {
          CAPTURE(op->name);
          CAPTURE(sample.note);
          const ReductionScope scope(mode);
          CHECK(difference(
                    [&] { return gradients(sample.in, 7, [&] { return call(*op, sample.in, sample.attrs); }); }) == "");
        }
    }
  CHECK(rows > 200);
}

TEST_CASE("rules in one pass: large and odd operands have the same gradients recorded and not") {
  Draw draw;
  const double infinity = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 100; ++round) {
    const DType dtype = round % 2 == 0 ? DType::f32 : DType::f64;
    const Shape shape = draw.shape();
    Tensor x = draw.normal(shape, dtype).contiguous().clone();
    const double odd[] = {0.0, -0.0, infinity, -infinity, std::nan(""), 1e-42, 90.0, -90.0, -800.0};
    for (int k = 0; k < 5; ++k)
      x.select(0, draw.below(shape[0])).select(0, draw.below(shape[1])).fill(odd[draw.below(9)]);
    const Tensor t = sigmoid(draw.normal(shape, dtype)), a = draw.normal(shape, dtype);
    const double number = draw.below(2) == 0 ? 1.0 : 0.3 * static_cast<double>(draw.below(5)) - 0.5;
    const ReductionScope scope(draw.below(4) == 0 ? Reduction::exact : Reduction::fast);
    CAPTURE(shape.str());
    CHECK(difference(
              [&] {
                return gradients({x, t, a}, 9, [&]() -> Outputs {
                  return {leaky_relu(x, number),
                          rsqrt(x),
                          logit_loss(x, t),
                          bce_with_logits(a, t),
                          addcmul(x, t, a.slice(0, 0, 1), number),
                          addcdiv(a, x, t, number),
                          prod(x, {0}),
                          prod(a, {1}, true)};
                });
              },
              same_but_nan) == "");
    CHECK(difference([&]() -> Outputs {
            return {addcmul(x, t, a.slice(1, 0, 1), number), addcdiv(a.slice(0, 0, 1), t.slice(1, 0, 1), x, number),
                    addcmul(a.slice(0, 0, 1), t.slice(1, 0, 1), a.slice(0, 0, 1), number)};
          }) == "");
  }
}

TEST_CASE("norms of channels and cosines: odd operands have the same values and gradients recorded and not") {
  Draw draw;
  for (int round = 0; round < 80; ++round) {
    const DType dtype = round % 2 == 0 ? DType::f32 : DType::f64;
    const Channels drawn(draw, dtype, round % 16 == 0 ? 40000 : 300);
    const Tensor &x = drawn.x, &gamma = drawn.gamma, &beta = drawn.beta;
    const double scales[] = {1.0, 1.0, 0.0, 1e-30, 1e30, 1e-9};
    const Tensor a = affine(draw.normal(draw.shape(), dtype), scales[draw.below(6)], 0.0);
    const Tensor b = affine(draw.normal(a.shape(), dtype), scales[draw.below(6)], 0.0);
    const ReductionScope scope(draw.below(4) == 0 ? Reduction::exact : Reduction::fast);
    CAPTURE(x.shape().str());
    CAPTURE(a.shape().str());
    const auto all = [&]() -> Outputs {
      return {group_norm(x, drawn.groups, gamma, beta), instance_norm(x, gamma, beta),
              cosine_similarity(a, b, -1, 1e-8)};
    };
    CHECK(difference([&]() -> Outputs { return {cosine_similarity(a, b, -1, 1e-8)}; }) == "");
    CHECK(difference([&] { return gradients({x, gamma, beta, a, b}, 11, all); }) == "");
    const Outputs some[] = {{x}, {gamma, beta}, {beta, b}, {x, beta, a}};
    CHECK(difference([&] { return gradients(some[round % 4], 13, all); }) == "");
  }
}

TEST_CASE("negative control: operations in another order have other bits") {
  Draw draw;
  const Tensor x = draw.normal({300, 300}, DType::f32), a = draw.normal({300, 300}, DType::f32);
  bool swapped = false;
  CHECK(difference([&]() -> Outputs {
          swapped = !swapped;
          return {swapped ? mse_loss(x, a) : affine(sum(square(x - a)), 1.0 / 90000, 0.0)};
        }) != "");
}

TEST_CASE("losses in one pass have the same bits with any number of threads") {
  Draw draw;
  const Tensor x = draw.normal({123457}, DType::f32), a = draw.normal({123457}, DType::f32);
  const auto all = [&] { return Outputs{mse_loss(x, a), huber_loss(x, a), addcmul(x, a, a, 0.3)}; };
  const int before = parallel::threads();
  const Outputs wanted = all();
  for (const int threads : {1, 2, 3, 7}) {
    parallel::set_threads(threads);
    const Outputs got = all();
    for (std::size_t o = 0; o < got.size(); ++o) CHECK(same_bits(got[o], wanted[o]));
  }
  parallel::set_threads(before);
}
