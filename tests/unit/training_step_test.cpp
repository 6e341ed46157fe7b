// Steps that update in the backward pass: the same bits as steps that wait for all gradients, less memory, and no way
// to save a step that ended half-way.

#include "support/message.h"

#include "autograd/tape.h"
#include "core/base/error.h"
#include "core/memory/allocator.h"
#include "core/ops.h"
#include "training/step.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace eg;
using namespace eg::test;
using namespace eg::training;

namespace {

/// A chain of square layers: every gradient has the size of a parameter, and they come one after another.
struct Chain {
  std::vector<Tensor> weights;
  Tensor input;

  explicit Chain(int layers, std::int64_t width, DType dtype = DType::f32) {
    for (int i = 0; i < layers; ++i)
      weights.push_back(
          random_normal({width, width}, RandomKey{3, 0}.fold(static_cast<std::uint64_t>(i)), 0.0, 0.1, dtype));
    input = random_normal({4, width}, {4, 0}, 0.0, 1.0, dtype);
  }
  Tensor loss() const {
    Tensor x = input;
    for (const Tensor& w : weights) x = tanh(matmul(x, w));
    return mean(x * x);
  }
};

void train(Chain& chain, const RunOptions& options, int steps) {
  const auto optimizer = optim::make_optimizer(options.optimizer, chain.weights, options.weight_decay, options.eps);
  StepGuard guard(options);
  bool torn = false;
  StepSums sums;
  for (int s = 0; s < steps; ++s) {
    guard.begin(s);
    CHECK(take_step(
        *optimizer, options, {.step = s, .lr = 0.01, .guard = &guard},
        [&](std::int64_t, std::int64_t) { return PartLoss{chain.loss()}; }, sums, torn));
    CHECK_FALSE(torn);
  }
}

RunOptions options_of(OnDivergence what) {
  RunOptions o;
  o.batch = 4;
  o.on_divergence = what;
  return o;
}

} // namespace

TEST_CASE("steps: which of them update in the backward pass") {
  RunOptions o;
  CHECK(updates_in_backward(o));
  for (const auto change : {+[](RunOptions& r) { r.clip = 1.0; }, +[](RunOptions& r) { r.accumulate = 2; },
                            +[](RunOptions& r) { r.on_divergence = OnDivergence::skip; }}) {
    RunOptions other;
    change(other);
    CHECK_FALSE(updates_in_backward(other));
  }
}

TEST_CASE("steps: those that update in the backward pass have the bits of those that wait for all gradients") {
  for (const char* rule : {"sgd", "adamw", "lion", "adafactor", "muon"}) {
    CAPTURE(rule);
    RunOptions early = options_of(OnDivergence::stop), late = options_of(OnDivergence::skip);
    early.optimizer = late.optimizer = rule;
    Chain a(5, 16), b(5, 16), untouched(5, 16);
    train(a, early, 4);
    train(b, late, 4);
    for (std::size_t i = 0; i < a.weights.size(); ++i) {
      CHECK(same_bits(a.weights[i], b.weights[i]));
      CHECK_FALSE(same_bits(a.weights[i], untouched.weights[i]));
    }
  }
}

TEST_CASE("steps: gradients that are used at once never stand side by side in memory") {
  constexpr int layers = 24;
  constexpr std::int64_t width = 128;
  const auto peak = [&](OnDivergence what) {
    Chain chain(layers, width);
    RunOptions o = options_of(what);
    o.optimizer = "sgd";
    train(chain, o, 1);
    allocator::reset_peak();
    const std::size_t before = allocator::stats().live_bytes;
    train(chain, o, 1);
    return allocator::stats().peak_bytes - before;
  };
  const std::size_t gradient = width * width * sizeof(float);
  CHECK(peak(OnDivergence::stop) + (layers - 4) * gradient < peak(OnDivergence::skip));
}

TEST_CASE("steps: a gradient that is not finite stops the run, and says when the step is half taken") {
  // The bias's gradient comes first and is finite; that of the weights is beyond f32, and the loss is 10.
  const Tensor x = Tensor::full({4, 8}, 1e38), weights = Tensor::zeros({8, 8}), bias = Tensor::full({10}, 1.0);
  const auto optimizer = optim::make_optimizer("sgd", {weights, bias});
  const RunOptions options = options_of(OnDivergence::stop);
  StepGuard guard(options);
  guard.begin(7);
  bool torn = false;
  const auto loss = [&](std::int64_t, std::int64_t) {
    const Tensor first = sum(matmul(x, weights)) * 10.0; // walked last
    return PartLoss{first + sum(bias * bias)};
  };
  StepSums sums;
  const auto step = [&] { take_step(*optimizer, options, {.step = 7, .lr = 0.5, .guard = &guard}, loss, sums, torn); };
  CHECK(message_of<ValueError>(step) == "train: the gradients' norm is inf at step 7; use a smaller lr or clip");
  CHECK(torn);
  CHECK(same_bits(weights, Tensor::zeros({8, 8})));
  CHECK_FALSE(same_bits(bias, Tensor::full({10}, 1.0)));
  // A loss that is not finite is seen before anything is changed.
  torn = false;
  const auto nowhere = [&](std::int64_t, std::int64_t) { return PartLoss{sum(bias) * std::nan("")}; };
  CHECK_THROWS_AS(take_step(*optimizer, options, {.step = 7, .lr = 0.5, .guard = &guard}, nowhere, sums, torn),
                  ValueError);
  CHECK_FALSE(torn);
}
