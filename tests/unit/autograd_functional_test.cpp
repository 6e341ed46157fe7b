#include "autograd/functional.h"

#include "autograd/tape.h"
#include "core/ops.h"
#include "core/random.h"
#include "support/message.h"
#include "unit/autograd_vectors.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace eg;
using namespace eg::test;

namespace {

using Tensors = std::vector<Tensor>;

Tensor normal(const Shape& shape, std::uint64_t seed) { return random_normal(shape, {seed, 7}, 0.0, 1.0, DType::f64); }

/// sum x_0^2 x_1: gradient (2 x0 x1, x0^2), Hessian [[2 x1, 2 x0], [2 x0, 0]] on the diagonal.
Tensor cubic(const Tensors& x) { return sum(mul(mul(x[0], x[0]), x[1])); }

/// tanh(W x) twice over, and its square: two outputs of two inputs.
Tensors two_by_two(const Tensors& in) {
  const Tensor h = tanh(matmul(in[0], in[1]));
  return {mul(h, h), softmax(matmul(h, in[0]))};
}

} // namespace

TEST_CASE("grad: of several tensors, composed with itself") {
  const Tensors x = {vec({1, 2}), vec({3, 5})};
  const Tensors g = grad(cubic)(x);
  CHECK(list(g[0]) == std::vector<double>{6, 20});
  CHECK(list(g[1]) == std::vector<double>{1, 4});
  const auto inner = grad(cubic);
  const Tensors second = grad([&](const Tensors& in) { return sum(inner(in)[0]); })(x); // sum 2 x0 x1
  CHECK(list(second[0]) == std::vector<double>{6, 10});
  CHECK(list(second[1]) == std::vector<double>{2, 4});
}

TEST_CASE("grad: inputs without gradients are handed on, f may ignore one") {
  const Tensor logits = normal({3, 4}, 1);
  const Tensor labels = Tensor::from<std::int64_t>({0, 3, 1}, {3});
  const Tensor unused = normal({2}, 2);
  const auto loss = [](const Tensors& in) { return cross_entropy(in[0], in[1]); };
  const auto [value, g] = value_and_grad(loss)({logits, labels, unused});
  Tape tape;
  const Tensor expected = cross_entropy(logits, labels);
  CHECK(same_bits(value, expected));
  CHECK(same_bits(g[0], tape.gradient(expected, {logits})[0]));
  CHECK_FALSE(g[1].defined());
  CHECK(list(g[2]) == std::vector<double>{0, 0});
}

TEST_CASE("grad: what f captures is constant, also when it is the argument itself") {
  const Tensor x = vec({3});
  // d/dy (x + y) at y = x is 1, so the outer function is x * 1.
  const auto outer = [](const Tensors& in) {
    const Tensor inner = grad([&](const Tensors& y) { return sum(mul(in[0], y[0])); })({in[0]})[0]; // = x
    return sum(mul(in[0], inner));                                                                  // x^2
  };
  CHECK(list(grad(outer)({x})[0]) == std::vector<double>{6});
  // One tensor as two arguments has two gradients.
  const Tensors g = grad(cubic)({x, x});
  CHECK(g[0].item() == 18.0);
  CHECK(g[1].item() == 9.0);
}

TEST_CASE("vjp and jvp: <v, J u> both ways round") {
  const Tensors x = {normal({3, 4}, 3), normal({4, 3}, 4)};
  const Tensors u = {normal({3, 4}, 5), normal({4, 3}, 6)};
  const Tensors v = {normal({3, 3}, 7), normal({3, 4}, 8)};
  const Jvp forward = jvp(two_by_two, x, u);
  const Vjp reverse = vjp(two_by_two, x, v);
  const auto dot = [](const Tensors& a, const Tensors& b) {
    double total = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) total += sum(mul(a[i], b[i])).item();
    return total;
  };
  CHECK(dot(v, forward.tangents) == doctest::Approx(dot(reverse.gradients, u)).epsilon(1e-12));
  CHECK(same_bits(forward.outputs[1], two_by_two(x)[1]));
  CHECK(same_bits(reverse.outputs[0], two_by_two(x)[0]));

  SUBCASE("an undefined tangent or cotangent is zero") {
    const Tensors half = jvp(two_by_two, x, {u[0], {}}).tangents;
    const Tensors rest = jvp(two_by_two, x, {{}, u[1]}).tangents;
    for (std::size_t o = 0; o < 2; ++o) CHECK(relative_error(add(half[o], rest[o]), forward.tangents[o]) < 1e-13);
    CHECK(same_bits(vjp(two_by_two, x, {v[0], {}}).gradients[0],
                    vjp(two_by_two, x, {v[0], Tensor::zeros({3, 4}, DType::f64)}).gradients[0]));
  }
  SUBCASE("against central differences") {
    const auto moved = [&](double h) {
      Tensors at;
      for (std::size_t i = 0; i < 2; ++i) at.push_back(add(x[i], affine(u[i], h, 0.0)));
      return two_by_two(at);
    };
    const double h = 1e-5;
    const Tensors up = moved(h), down = moved(-h);
    for (std::size_t o = 0; o < 2; ++o)
      CHECK(relative_error(affine(sub(up[o], down[o]), 0.5 / h, 0.0), forward.tangents[o]) < 1e-8);
  }
}

TEST_CASE("jvp: functions that are linear, constant or the identity") {
  const Tensor x = vec({1, 2}), u = vec({5, 7}), c = vec({1, 1});
  const auto f = [&](const Tensors& in) { return Tensors{in[0], affine(in[0], 3.0, 1.0), c, argmax(in[0], 0)}; };
  const Jvp result = jvp(f, {x}, {u});
  CHECK(list(result.tangents[0]) == std::vector<double>{5, 7});
  CHECK(list(result.tangents[1]) == std::vector<double>{15, 21});
  CHECK(list(result.tangents[2]) == std::vector<double>{0, 0});
  CHECK_FALSE(result.tangents[3].defined());
}

TEST_CASE("jacobian: against jvp column by column; differentiable itself") {
  const Tensors x = {normal({2, 3}, 9), normal({3, 2}, 10)};
  const std::vector<Tensors> j = jacobian(two_by_two, x);
  REQUIRE(j.size() == 2);
  CHECK(j[0][0].shape() == Shape{2, 2, 2, 3});
  CHECK(j[1][1].shape() == Shape{2, 3, 3, 2});
  for (std::size_t i = 0; i < 2; ++i)
    for (std::int64_t k = 0; k < 6; ++k) {
      Tensors u(2);
      u[i] = Tensor::zeros(x[i].shape(), DType::f64);
      u[i].view_as({1}, {1}, k).fill(1.0);
      const Tensors columns = jvp(two_by_two, x, u).tangents;
      for (std::size_t o = 0; o < 2; ++o) {
        const Tensor column = j[o][i].reshape({columns[o].numel(), 6}).select(1, k).reshape(columns[o].shape());
        CHECK(relative_error(column, columns[o]) < 1e-12);
      }
    }
  // d/dx of the trace of the Jacobian of x^2 is 2.
  const auto trace = [](const Tensors& in) {
    const Tensor jac = jacobian([](const Tensors& y) { return Tensors{mul(y[0], y[0])}; }, in)[0][0];
    return sum(jac);
  };
  CHECK(list(grad(trace)({vec({4, 5, 6})})[0]) == std::vector<double>{2, 2, 2});
}

TEST_CASE("hvp and hessian: agree, are symmetric, know constants") {
  const Tensors x = {vec({1, 2}), vec({3, 5})};
  const std::vector<Tensors> h = hessian(cubic, x);
  CHECK(list(h[0][0]) == std::vector<double>{6, 0, 0, 10});
  CHECK(list(h[0][1]) == std::vector<double>{2, 0, 0, 4});
  CHECK(list(h[1][0]) == std::vector<double>{2, 0, 0, 4});
  CHECK(list(h[1][1]) == std::vector<double>{0, 0, 0, 0});
  const Hvp product = hvp(cubic, x, {vec({1, 1}), vec({1, 0})});
  CHECK(product.value.item() == 23.0);
  CHECK(list(product.gradients[0]) == std::vector<double>{6, 20});
  CHECK(list(product.products[0]) == std::vector<double>{8, 10});
  CHECK(list(product.products[1]) == std::vector<double>{2, 4});
  // A linear function has a Hessian of zeros, whatever is left undefined.
  const Hvp flat = hvp([](const Tensors& in) { return sum(in[0]); }, {x[0], Tensor::arange(3)}, {vec({1, 1}), {}});
  CHECK(list(flat.products[0]) == std::vector<double>{0, 0});
  CHECK_FALSE(flat.products[1].defined());
}

TEST_CASE("functional forms leave no recorder open, and an open tape hears them") {
  const Tensors x = {vec({1, 2}), vec({3, 5})};
  Tape tape;
  const Tensor product = hvp(cubic, x, {vec({1, 1}), {}}).products[1]; // 2 x0
  CHECK(list(tape.gradient(product, {x[0]}, vec({1, 10}))[0]) == std::vector<double>{2, 20});
  CHECK_FALSE(recording());
  CHECK_THROWS(grad([](const Tensors&) -> Tensor { throw ValueError("no"); })(x));
  CHECK_FALSE(recording());
}

TEST_CASE("functional forms: what they refuse, and how they say it") {
  const Tensor x = vec({1, 2});
  const auto square = [](const Tensors& in) { return mul(in[0], in[0]); };
  const auto squares = [&](const Tensors& in) { return Tensors{square(in)}; };
  const auto says = [](auto&& call, const char* words) {
    const std::string message = test::message_of(call);
    INFO(message);
    CHECK(message.find(words) != std::string::npos);
  };
  says([&] { grad(square)({x}); }, "grad: the function's value is f64 [2]; reduce it to one element");
  says([&] { grad(square)({}); }, "grad: there are no inputs");
  says([&] { grad(square)({Tensor::arange(2)}); }, "grad: none of the 1 inputs is f32 or f64");
  says([&] { grad([&](const Tensors&) { return sum(mul(x, x)); })({x}); }, "grad: the function ignores its argument 0");
  says([&] { grad([](const Tensors&) { return Tensor{}; })({x}); }, "output 0 is undefined");
  says([&] { vjp([](const Tensors&) { return Tensors{}; }, {x}, {}); }, "vjp: the function gave no output");
  says([&] { vjp(squares, {x}, {}); }, "vjp: 0 cotangents were given for 1 outputs");
  says([&] { vjp(squares, {x}, {vec({1})}); }, "cotangent 0 does not fit: cotangent is f64 [1], output is f64 [2]");
  says([&] { jvp(squares, {x}, {x, x}); }, "jvp: 2 tangents were given for 1 inputs");
  says([&] { jvp(squares, {x, Tensor::arange(2)}, {x, x}); }, "input 1 is i64 [2], which has no derivative");
  says([&] { hvp(square, {x}, {x}); }, "hvp: the function's value is f64 [2]");
  says([&] { hessian(square, {x}); }, "hessian: the function's value is f64 [2]");
}
