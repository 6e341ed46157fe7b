#include "core/measure/profile.h"

#include "autograd/checkpoint.h"
#include "autograd/tape.h"
#include "core/measure/work_meter.h"
#include "core/ops.h"
#include "optim/optimizer.h"

#include <doctest/doctest.h>

using namespace eg;

namespace {

/// Forward, backward, one step of Adam; the gradients. x is used twice, so that gradients are added up.
std::vector<Tensor> training_step(const Tensor& w) {
  const Tensor x = random_normal({8, 16}, {7, 1});
  std::vector<Tensor> gradients;
  {
    Tape tape;
    const PlaceScope place("layer");
    const Tensor h = linear(x, w) + linear(x * 2.0, w);
    gradients = tape.gradient(mean(gelu(h) * h), {w});
  }
  optim::make_optimizer("adam", {w})->step(gradients, 1e-3);
  return gradients;
}

const Roofline unit_roofline{.gflops_f32 = 1.0, .gflops_f64 = 0.5, .gb_per_s = 1.0};

} // namespace

TEST_CASE("a profile hears operations, rules and optimisers, each once") {
  const Tensor w = random_normal({16, 16}, {7, 2});
  const std::vector<Tensor> alone = training_step(w.clone());
  const Profile profile;
  double flops = 0;
  std::vector<Tensor> heard;
  {
    const WorkMeter meter;
    heard = training_step(w.clone());
    flops = meter.total().flops;
  }
  CHECK(same_bits(alone[0], heard[0]));
  double sum = 0, busy = 0;
  std::int64_t forward = 0, backward = 0, adam = 0, added = 0;
  for (const Profile::Call& call : profile.calls()) {
    CHECK(call.us >= 0.0);
    CHECK(call.start_us + call.us <= profile.elapsed_us());
    CHECK(call.peak_bytes >= call.live_bytes);
    sum += call.work.flops;
    busy += call.us;
    forward += call.name == "linear" && !call.backward && call.place == "layer";
    backward += call.name == "matmul" && call.backward;
    adam += call.name == "adam";
    added += call.name == "add" && call.backward;
  }
  CHECK(sum == doctest::Approx(flops));
  CHECK(busy <= profile.elapsed_us()); // nothing counts twice
  CHECK(forward == 2);
  CHECK(backward == 2); // x is nobody's parameter: only the weight's gradients
  CHECK(adam == 1);
  CHECK(added == 2); // the two cotangents of h, and of w
  CHECK(profile.dropped() == 0);
}

TEST_CASE("rows add the calls up and stand in the order of time") {
  const Profile profile;
  const Tensor x = random_normal({64, 64}, {7, 3}), y = x.to(DType::f64);
  for (int i = 0; i < 3; ++i) matmul(x, x);
  matmul(y, y);
  const std::vector<Profile::Row> rows = profile.rows(unit_roofline);
  const double one = 2.0 * 64 * 64 * 64;
  bool seen = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i > 0) CHECK(rows[i].us <= rows[i - 1].us);
    if (rows[i].name != "matmul") continue;
    seen = true;
    CHECK(rows[i].calls == 4);
    CHECK(rows[i].work.flops == doctest::Approx(4 * one));
    CHECK(rows[i].least_ms == doctest::Approx((3 * one + 2 * one) / 1e6)); // f64 at half the peak
  }
  CHECK(seen);
  const std::string table = profile.table(unit_roofline, profile.elapsed_us());
  for (const char* words : {"matmul", "between the calls", "before the first and after the last", "peak memory",
                            "roofline 1 GFLOP/s in f32"})
    CHECK_MESSAGE(table.find(words) != std::string::npos, words);
}

TEST_CASE("the backward pass is told apart inside a checkpoint and after an error") {
  const Tensor x = random_normal({4, 4}, {7, 4});
  const Profile profile;
  {
    Tape tape;
    const Tensor y = checkpoint([](const Tensor& in) { return exp(in) * in; }, x);
    tape.gradient(sum(y), {x});
  }
  {
    Tape tape;
    const Tensor y = sum(exp(x));
    const auto hook = tape.on_gradient(y, [](const Tensor&) -> Tensor { throw ValueError("no"); });
    CHECK_THROWS_AS(tape.gradient(y, {x}), ValueError);
  }
  sqrt(x * x);
  std::int64_t again = 0;
  for (const Profile::Call& call : profile.calls()) {
    if (call.name == "sqrt") CHECK_FALSE(call.backward);
    again += call.name == "exp" && call.backward;
  }
  CHECK(again == 1); // computed again for the gradient
}

TEST_CASE("a profile that has ended hears nothing, and nested profiles hear the same") {
  const Tensor x = Tensor::ones({4});
  const Profile outer;
  std::size_t inner_calls = 0;
  {
    const Profile inner;
    exp(x);
    inner_calls = inner.calls().size();
  }
  exp(x);
  CHECK(inner_calls == 1);
  CHECK(outer.calls().size() == 2);
}

TEST_CASE("the roofline is positive, f32 is faster than f64, and the slower of the two limits counts") {
  const Roofline line = measure_roofline();
  CHECK(line.gb_per_s > 0.0);
  CHECK(line.gflops_f64 > 0.0);
  CHECK(line.gflops_f32 > 0.0);
  CHECK(unit_roofline.least_ms({2e9, 1e9}, DType::f32) == doctest::Approx(2000.0));
  CHECK(unit_roofline.least_ms({1e9, 3e9}, DType::f64) == doctest::Approx(3000.0));
}
