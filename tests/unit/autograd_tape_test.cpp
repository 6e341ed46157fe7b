#include "autograd/tape.h"
#include "core/ops.h"
#include "unit/autograd_vectors.h"

#include <doctest/doctest.h>

#include <thread>

using namespace eg;
using namespace eg::test;

namespace {

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

TEST_CASE("tape: gradient_views has the values of gradient and copies nothing") {
  const Tensor a = random_normal({3, 5}, {2, 4}, 0, 1, DType::f64), b = random_normal({3, 5}, {2, 5}, 0, 1, DType::f64);
  const Tensor unused = vec({1, 2});
  const Tensor xs[] = {a, b, unused};
  const auto check = [&](const Tensor& v, auto&& f, auto&& views) {
    Tape tape;
    const Tensor y = f();
    const auto own = tape.gradient(y, xs, v, true), read = tape.gradient_views(y, xs, v);
    REQUIRE(read.size() == own.size());
    for (std::size_t i = 0; i < own.size(); ++i) CHECK(same_bits(read[i].contiguous(), own[i]));
    views(read);
  };
  const Tensor v = random_normal({3, 5}, {2, 6}, 0, 1, DType::f64);
  check(
      v, [&] { return add(a, b); },
      [&](const auto& g) {
        CHECK(g[0].storage() == v.storage());
        CHECK(g[1].storage() == v.storage());
      });
  check(
      vec({7}).reshape({}), [&] { return sum(affine(a, 2.0, 0.0)) + sum(b); },
      [&](const auto& g) {
        CHECK(g[1].strides() == Shape{0, 0});
      });
  check(
      random_normal({6, 5}, {2, 7}, 0, 1, DType::f64),
      [&] {
        return concat({a, b}, 0);
      },
      [&](const auto& g) { CHECK(g[0].storage() == g[1].storage()); });
  check(
      v.transpose().clone(), [&] { return mul(a, b).transpose(); },
      [&](const auto& g) {
        CHECK(list(g[2]) == std::vector<double>{0, 0});
      });
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
