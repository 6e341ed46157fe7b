// What the tape refuses, how it says so, and that it stays good.

#include "autograd/tape.h"
#include "core/ops.h"
#include "unit/autograd_vectors.h"

#include <doctest/doctest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

using namespace eg;
using namespace eg::test;

TEST_CASE("tape: what it refuses, and how it says so") {
  const Tensor x = vec({1, 2});
  const Tensor xs[] = {x};
  SUBCASE("no cotangent for several elements") {
    Tape tape;
    const Tensor y = mul(x, x);
    CHECK_THROWS_WITH_AS(tape.gradient(y, xs), doctest::Contains("y is f64 [2] and has no cotangent"), AutogradError);
    CHECK(list(tape.gradient(y, {x}, vec({1, 1}))[0]) == std::vector<double>{2, 4}); // the tape is still good
  }
  SUBCASE("a cotangent of another shape") {
    Tape tape;
    const Tensor y = mul(x, x);
    CHECK_THROWS_WITH_AS(tape.gradient(y, {x}, vec({1})), doctest::Contains("cotangent is f64 [1], y is f64 [2]"),
                         AutogradError);
  }
  SUBCASE("y from elsewhere") {
    const Tensor y = sum(x);
    Tape tape;
    CHECK_THROWS_WITH_AS(tape.gradient(y, xs), doctest::Contains("was not computed on this tape"), AutogradError);
  }
  SUBCASE("y computed while recording was paused") {
    Tape tape;
    const Tensor y = without_tape([&] { return sum(x); });
    CHECK(tape.size() == 0);
    CHECK_THROWS_WITH_AS(tape.gradient(y, xs), doctest::Contains("was not computed on this tape"), AutogradError);
  }
  SUBCASE("y computed after close") {
    Tape tape;
    tape.close();
    const Tensor y = sum(x);
    CHECK_THROWS_WITH_AS(tape.gradient(y, xs), doctest::Contains("was not computed on this tape"), AutogradError);
  }
  SUBCASE("integers") {
    Tape tape;
    const Tensor y = sum(x);
    CHECK_THROWS_WITH_AS(tape.gradient(y, {Tensor::arange(3)}), doctest::Contains("x is i64 [3]"), AutogradError);
    CHECK_THROWS_WITH_AS(tape.gradient(Tensor::arange(1), {x}), doctest::Contains("y is i64 [1]"), AutogradError);
    CHECK_THROWS_WITH_AS(tape.gradient(Tensor(), {x}), doctest::Contains("y is undefined"), AutogradError);
  }
  SUBCASE("an operation without a rule on the way") {
    auto op = std::make_shared<CustomOp>();
    op->name = "opaque";
    op->forward = [](std::span<const Tensor> in) -> std::vector<Tensor> { return {in[0].clone()}; };
    Tape tape;
    const PlaceScope place("encoder.3");
    const Tensor through = call(std::shared_ptr<const CustomOp>(op), std::span(&x, 1)).front();
    const Tensor y = sum(mul(through, x));
    CHECK_THROWS_WITH_AS(tape.gradient(y, xs), doctest::Contains("opaque (at encoder.3) has no gradient"),
                         AutogradError);
  }
  SUBCASE("an operation without a rule off the way is no harm") {
    auto op = std::make_shared<CustomOp>();
    op->name = "opaque";
    op->forward = [](std::span<const Tensor> in) -> std::vector<Tensor> { return {in[0].clone()}; };
    const Tensor data = vec({5, 6});
    Tape tape;
    const Tensor constant = call(std::shared_ptr<const CustomOp>(op), std::span(&data, 1)).front();
    CHECK(list(tape.gradient(sum(mul(constant, x)), {x})[0]) == std::vector<double>{5, 6});
  }
  SUBCASE("a rule whose gradient does not fit") {
    auto op = std::make_shared<CustomOp>();
    op->name = "misfit";
    op->forward = [](std::span<const Tensor> in) -> std::vector<Tensor> { return {in[0].clone()}; };
    op->vjp = [](std::span<const Tensor>, std::span<const Tensor>, std::span<const Tensor>) -> std::vector<Tensor> {
      return {vec({1, 2, 3})};
    };
    Tape tape;
    const Tensor y = call(std::shared_ptr<const CustomOp>(op), std::span(&x, 1)).front();
    CHECK_THROWS_WITH_AS(tape.gradient(y, {x}, vec({1, 1})),
                         doctest::Contains("misfit for input 0 does not fit: gradient is f64 [3], input is f64 [2]"),
                         AutogradError);
  }
}

TEST_CASE("tape: a saved value that was changed in place is reported with both names and the place") {
  Tensor x = vec({1, 2});
  Tape tape;
  Tensor y;
  {
    const PlaceScope place("head");
    y = sum(mul(x, x));
  }
  {
    const PlaceScope place("trainer");
    x.mutable_data<double>("adamw step")[0] = 5.0;
  }
  try {
    tape.gradient(y, {x});
    FAIL("the change went unnoticed");
  } catch (const AutogradError& e) {
    const std::string text = e.what();
    CHECK(text.find("mul (at head)") != std::string::npos);
    CHECK(text.find("'adamw step' (at trainer)") != std::string::npos);
    CHECK(text.find("f64 [2]") != std::string::npos);
  }
}

TEST_CASE("tape: a value that no rule reads may change") {
  Tensor x = vec({1, 2});
  Tape tape;
  const Tensor y = sum(affine(x, 3.0, 0.0));
  x.fill(0.0);
  CHECK(list(tape.gradient(y, {x})[0]) == std::vector<double>{3, 3});
}

TEST_CASE("tape: exceptions leave the thread clean") {
  const Tensor x = vec({1, 2});
  CHECK_FALSE(recording());
  auto op = std::make_shared<CustomOp>();
  op->name = "thrower";
  op->forward = [](std::span<const Tensor> in) -> std::vector<Tensor> { return {in[0].clone()}; };
  op->vjp = [](std::span<const Tensor>, std::span<const Tensor>, std::span<const Tensor>) -> std::vector<Tensor> {
    throw ValueError("thrower: no");
  };
  {
    Tape outer;
    {
      Tape tape;
      const Tensor y = call(std::shared_ptr<const CustomOp>(op), std::span(&x, 1)).front();
      CHECK_THROWS_AS(tape.gradient(sum(y), {x}), ValueError);
      CHECK(tape.size() == 0);
      CHECK_THROWS_WITH_AS(tape.gradient(sum(y), {x}), doctest::Contains("used up"), AutogradError);
    }
    CHECK(recording());
    const Tensor z = sum(mul(x, x));
    CHECK(list(outer.gradient(z, {x})[0]) == std::vector<double>{2, 4});
    CHECK_THROWS_AS(matmul(x, x), Error);
  }
  CHECK_FALSE(recording());
  CHECK(current_place().empty());
}

TEST_CASE("tape: a gradient that would get lost in bf16 is refused, not taken for zero") {
  const Tensor x = random_normal({3, 4}, {1, 0}), w = random_normal({2, 4}, {2, 0});
  const auto gradient_by = [&](const Tensor& by) {
    Tape tape;
    const Tensor half = w.to(DType::bf16);
    const Tensor y = sum(linear(x, half.reshape({2, 4})));
    return tape.gradient(y, {by})[0];
  };
  CHECK_THROWS_WITH_AS(gradient_by(w), doctest::Contains("no gradient flows through bf16"), AutogradError);
  CHECK(gradient_by(x).shape() == Shape({3, 4})); // nothing of x went through bf16
}

TEST_CASE("tape: bf16 copies that are only stored do not disturb, nor do those of detached values") {
  const Tensor x = random_normal({3, 4}, {1, 0}), w = random_normal({2, 4}, {2, 0});
  Tape tape;
  const Tensor stored = w.to(DType::bf16);
  const Tensor constant = w.detach().to(DType::bf16).to(DType::f32);
  const Tensor y = sum(linear(x, w) * linear(x, constant));
  CHECK(tape.gradient(y, {w})[0].shape() == Shape({2, 4}));
  CHECK(stored.dtype() == DType::bf16);
}
