#include "autograd/tape.h"
#include "core/allocator.h"
#include "core/ops.h"

#include <doctest/doctest.h>

#include <cmath>
#include <thread>

using namespace eg;

namespace {

Tensor vec(std::initializer_list<double> values) {
  return Tensor::from<double>(values, {static_cast<std::int64_t>(values.size())});
}

std::vector<double> list(const Tensor& t) { return t.to_vector<double>(); }

/// y = x^2 as a user's operation that counts how often its rule runs.
std::shared_ptr<CustomOp> square_op(int* rule_calls = nullptr) {
  auto op = std::make_shared<CustomOp>();
  op->name = "square";
  op->forward = [](std::span<const Tensor> in) -> std::vector<Tensor> { return {mul(in[0], in[0])}; };
  op->vjp = [rule_calls](std::span<const Tensor> in, std::span<const Tensor>,
                         std::span<const Tensor> grad) -> std::vector<Tensor> {
    if (rule_calls != nullptr) ++*rule_calls;
    return {mul(affine(in[0], 2.0, 0.0), grad[0])};
  };
  return op;
}

Tensor square(const std::shared_ptr<CustomOp>& op, const Tensor& x) { return call(op, std::span(&x, 1)).front(); }

} // namespace

TEST_CASE("tape: a first gradient") {
  const Tensor x = vec({1, 2, 3});
  Tape tape;
  const Tensor y = sum(mul(x, x));
  const Tensor g = tape.gradient(y, {x})[0];
  CHECK(list(g) == std::vector<double>{2, 4, 6});
}

TEST_CASE("tape: broadcasting is undone") {
  const Tensor x = random_normal({4, 3}, {1, 1}, 0, 1, DType::f64);
  const Tensor bias = vec({1, 2, 3});
  const Tensor scale = Tensor::full({4, 1}, 2.0, DType::f64);
  Tape tape;
  const Tensor y = sum(mul(add(x, bias), scale));
  const auto g = tape.gradient(y, {bias, scale});
  CHECK(g[0].shape() == Shape{3});
  CHECK(list(g[0]) == std::vector<double>{8, 8, 8});
  CHECK(g[1].shape() == Shape{4, 1});
}

TEST_CASE("tape: gradients of values computed on the tape") {
  const Tensor x = vec({1, 2});
  Tape tape;
  const Tensor h = mul(x, x);
  const Tensor y = sum(mul(h, h));
  const auto g = tape.gradient(y, {h, x, y});
  CHECK(list(g[0]) == std::vector<double>{2, 8});  // 2h
  CHECK(list(g[1]) == std::vector<double>{4, 32}); // 4x^3
  CHECK(g[2].item() == 1.0);
}

TEST_CASE("tape: an x that y does not depend on gets zeros of its type") {
  const Tensor x = vec({1, 2});
  const Tensor other = Tensor::ones({2, 2}, DType::f32);
  Tape tape;
  const auto g = tape.gradient(sum(x), {other, x});
  CHECK(same_bits(g[0], Tensor::zeros({2, 2}, DType::f32)));
  CHECK(list(g[1]) == std::vector<double>{1, 1});
}

TEST_CASE("tape: y among xs gives the cotangent") {
  const Tensor x = vec({1, 2});
  const Tensor v = vec({5, 7});
  Tape tape;
  CHECK(list(tape.gradient(x, {x}, v)[0]) == std::vector<double>{5, 7});
}

TEST_CASE("tape: several outputs with cotangents of their own") {
  const Tensor x = vec({1, 2});
  Tape tape;
  const Tensor ys[] = {mul(x, x), affine(x, 3.0, 0.0)};
  const Tensor vs[] = {vec({1, 1}), vec({10, 10})};
  const Tensor xs[] = {x};
  CHECK(list(tape.gradient(ys, xs, vs)[0]) == std::vector<double>{32, 34});
}

TEST_CASE("tape: gradients share no elements with each other or with the cotangent") {
  const Tensor a = vec({1, 2});
  const Tensor b = vec({3, 4});
  const Tensor v = vec({1, 1});
  Tape tape;
  auto g = tape.gradient(add(a, b), {a, b, a}, v);
  g[0].fill(9.0);
  CHECK(list(g[1]) == std::vector<double>{1, 1});
  CHECK(list(g[2]) == std::vector<double>{1, 1});
  CHECK(list(v) == std::vector<double>{1, 1});
  CHECK(g[1].is_contiguous());
}

TEST_CASE("tape: many contributions to one value") {
  const Tensor x = random_normal({64}, {2, 1}, 0, 1, DType::f64);
  Tape tape;
  Tensor y = affine(x, 1.0, 0.0);
  for (int i = 0; i < 20; ++i) y = add(y, x);
  for (const double g : list(tape.gradient(sum(y), {x})[0])) CHECK(g == 21.0);
}

TEST_CASE("tape: x handed to itself (a packed tensor made contiguous)") {
  const Tensor x = vec({1, 2});
  Tape tape;
  const Tensor same = contiguous(x);
  const Tensor y = sum(mul(same, x));
  const auto g = tape.gradient(y, {x});
  CHECK(list(g[0]) == std::vector<double>{2, 4});
}

TEST_CASE("tape: second and third derivatives") {
  const Tensor x = vec({2});
  Tape third;
  Tensor g2;
  {
    Tape second;
    Tensor g1;
    {
      Tape first;
      const Tensor y = sum(mul(mul(x, x), mul(x, x))); // x^4
      g1 = first.gradient(y, {x})[0];
    }
    CHECK(g1.item() == doctest::Approx(32));
    g2 = second.gradient(g1, {x})[0];
  }
  CHECK(g2.item() == doctest::Approx(48));
  CHECK(third.gradient(g2, {x})[0].item() == doctest::Approx(48));
}

TEST_CASE("tape: it does not hear the rules that it runs") {
  const Tensor x = vec({1, 2});
  Tape tape;
  const Tensor y = sum(mul(x, x));
  const std::size_t before = tape.size();
  const Tensor xs[] = {x};
  tape.gradient(y, xs, {}, true);
  CHECK(tape.size() == before);
  SUBCASE("also when another tape is innermost") {
    Tape inner;
    tape.gradient(y, xs, {}, true);
    CHECK(tape.size() == before);
    CHECK(inner.size() > 0);
  }
}

TEST_CASE("tape: retain allows a second gradient with the same bits") {
  const Tensor x = random_normal({7}, {3, 1}, 0, 1, DType::f64);
  Tape tape;
  const Tensor y = sum(tanh(mul(x, x)));
  const Tensor xs[] = {x};
  const Tensor first = tape.gradient(y, xs, {}, true)[0];
  const Tensor again = tape.gradient(y, xs, {}, false)[0];
  CHECK(same_bits(first, again));
  CHECK_THROWS_WITH_AS(tape.gradient(y, xs), doctest::Contains("used up"), AutogradError);
}

TEST_CASE("tape: custom operations, once and twice differentiated") {
  int rule_calls = 0;
  const auto op = square_op(&rule_calls);
  const Tensor x = vec({3});
  Tape outer;
  Tensor g;
  {
    Tape inner;
    g = inner.gradient(square(op, x), {x})[0];
  }
  CHECK(g.item() == 6.0);
  CHECK(rule_calls == 1);
  CHECK(outer.gradient(g, {x})[0].item() == 2.0);
}

TEST_CASE("tape: rules run only on the way from y to xs") {
  int rule_calls = 0;
  const auto op = square_op(&rule_calls);
  const Tensor x = vec({3});
  const Tensor data = vec({4});
  Tape tape;
  const Tensor prepared = square(op, data); // upstream of x: nobody asked for the gradient of data
  const Tensor unused = square(op, x);      // not upstream of y
  const Tensor y = mul(prepared, x);
  CHECK(tape.gradient(y, {x})[0].item() == 16.0);
  CHECK(rule_calls == 0);
  CHECK(unused.item() == 9.0);
}

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

TEST_CASE("tape: a chain of 100,000 operations, with and without a gradient") {
  const Tensor x = vec({0.5});
  constexpr int length = 100000;
  const auto chain = [&] {
    Tensor y = x;
    for (int i = 0; i < length; ++i) y = affine(y, 1.0, 1e-6);
    return y;
  };
  {
    Tape tape;
    const Tensor y = chain();
    CHECK(tape.size() == length);
    CHECK(tape.gradient(y, {x})[0].item() == 1.0);
    CHECK(tape.size() == 0);
  }
  {
    Tape tape;
    chain();
  }
}

TEST_CASE("tape: bytes that it keeps, each storage once") {
  const Tensor x = random_normal({1000}, {4, 1}, 0, 1, DType::f64);
  Tape tape;
  const Tensor y = mul(x, x);
  CHECK(tape.saved_bytes() == 8000);
  const Tensor z = affine(y, 2.0, 0.0); // its rule reads neither
  CHECK(tape.saved_bytes() == 8000);
  CHECK(tape.size() == 2);
  CHECK(z.numel() == 1000);
}

TEST_CASE("tape: live bytes return to where they were") {
  const Tensor x = random_normal({100, 100}, {5, 1});
  const Tensor w = random_normal({100, 100}, {5, 2});
  const auto step = [&] {
    Tape tape;
    Tensor h = x;
    for (int i = 0; i < 4; ++i) h = tanh(mul(h, w));
    return tape.gradient(sum(h), {w});
  };
  step();
  const std::size_t before = allocator::stats().live_bytes;
  {
    const auto g = step();
    CHECK(allocator::stats().live_bytes <= before + 41000);
  }
  CHECK(allocator::stats().live_bytes == before);
}

TEST_CASE("tape: saved values are freed on the way") {
  const Tensor x = random_normal({1 << 16}, {6, 1});
  const auto peak_of = [&](int length) {
    Tape tape;
    Tensor h = x;
    for (int i = 0; i < length; ++i) h = tanh(h);
    const Tensor y = sum(h);
    h = {};
    allocator::reset_peak();
    const std::size_t before = allocator::stats().live_bytes;
    tape.gradient(y, {x});
    return allocator::stats().peak_bytes - before;
  };
  const std::size_t few = peak_of(4);
  const std::size_t many = peak_of(32);
  CHECK(many <= few + x.nbytes()); // the walk itself needs no memory that grows with the chain
}

TEST_CASE("tape: it belongs to its thread") {
  const Tensor x = vec({1, 2});
  Tape tape;
  std::string message;
  bool heard = true;
  std::thread other([&] {
    heard = recording();
    mul(x, x);
    try {
      tape.close();
    } catch (const AutogradError& e) {
      message = e.what();
    }
  });
  other.join();
  CHECK_FALSE(heard);
  CHECK(tape.size() == 0);
  CHECK(message.find("opened on another thread") != std::string::npos);
  CHECK(recording());
}

TEST_CASE("tape: gradients do not depend on what else is asked") {
  const Tensor x = random_normal({6, 5}, {7, 1}, 0, 1, DType::f64);
  const Tensor w = random_normal({5}, {7, 2}, 0, 1, DType::f64);
  const auto run = [&](std::vector<Tensor> xs) {
    Tape tape;
    return tape.gradient(sum(tanh(mul(x, w))), std::span<const Tensor>(xs));
  };
  CHECK(same_bits(run({x, w})[1], run({w})[0]));
  CHECK(same_bits(run({x, w})[0], run({x})[0]));
}
