#include "autograd/check.h"
#include "autograd/tape.h"
#include "core/call.h"
#include "core/ops.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

using namespace eg;

namespace {

using Tensors = std::vector<Tensor>;

Tensor normal(const Shape& shape, std::uint64_t stream, DType dtype = DType::f64) {
  return random_normal(shape, {31, stream}, 0.0, 1.0, dtype);
}

/// tanh with a gradient that is wrong by `factor`.
TensorFunction tanh_with_factor(double factor) {
  auto op = std::make_shared<CustomOp>();
  op->name = "tanh with factor";
  op->forward = [](std::span<const Tensor> in) -> Tensors { return {tanh(in[0])}; };
  op->vjp = [factor](std::span<const Tensor>, std::span<const Tensor> out, std::span<const Tensor> grad) -> Tensors {
    return {mul(grad[0], affine(mul(out[0], out[0]), -factor, factor))};
  };
  return [op](const Tensors& in) { return call(std::shared_ptr<const CustomOp>(op), in); };
}

} // namespace

TEST_CASE("gradcheck accepts right gradients, also of integer inputs' neighbours") {
  const TensorFunction f = [](const Tensors& in) -> Tensors {
    return {tanh(matmul(index_select(in[0], 0, in[1]), in[2]))};
  };
  const Tensors inputs = {normal({4, 3}, 1), Tensor::from<std::int64_t>({2, 0, 2}, {3}), normal({3, 5}, 2)};
  const CheckResult first = gradcheck(f, inputs);
  CHECK_MESSAGE(first.pass, first.detail);
  CHECK(first.error > 0.0);
  const CheckResult second = gradcheck(f, inputs, {.second = true});
  CHECK_MESSAGE(second.pass, second.detail);
}

TEST_CASE("gradcheck finds a small factor and prints both numbers") {
  const Tensors inputs = {normal({5, 3}, 3)};
  CHECK(gradcheck(tanh_with_factor(1.0), inputs).pass);
  const CheckResult wrong = gradcheck(tanh_with_factor(1.001), inputs);
  CHECK_FALSE(wrong.pass);
  CHECK(wrong.error > 1e-5);
  CHECK(wrong.detail.find("differences give") != std::string::npos);
  CHECK(wrong.detail.find("the tape gives") != std::string::npos);
}

TEST_CASE("gradcheck: a NaN is a failure, f32 is refused") {
  const TensorFunction nan = [](const Tensors& in) -> Tensors { return {log(affine(in[0], 0.0, -1.0))}; };
  CHECK_FALSE(gradcheck(nan, {normal({3}, 4)}).pass);
  CHECK_THROWS_WITH_AS(gradcheck(nan, {normal({3}, 4, DType::f32)}), doctest::Contains("differences need f64"),
                       DTypeError);
}

TEST_CASE("gradcheck leaves no trace on an open tape") {
  Tape tape;
  CHECK(gradcheck(tanh_with_factor(1.0), {normal({3}, 5)}).pass);
  CHECK(tape.size() == 0);
}

TEST_CASE("symmetry_check: rows, and rows that are mixed with a weight per place") {
  const Symmetry rows{"rows", {in_leg(0, 0), out_leg(0, 0)}};
  const TensorFunction equivariant = [](const Tensors& in) -> Tensors { return {tanh(matmul(in[0], in[1]))}; };
  const Tensors inputs = {normal({6, 4}, 6), normal({4, 3}, 7)};
  const CheckResult good = symmetry_check(equivariant, inputs, rows);
  CHECK_MESSAGE(good.pass, good.detail);
  const Tensor weight = normal({6, 1}, 8);
  const TensorFunction by_place = [&](const Tensors& in) -> Tensors { return {mul(matmul(in[0], in[1]), weight)}; };
  CHECK_FALSE(symmetry_check(by_place, inputs, rows).pass);
}

TEST_CASE("symmetry_check: a function with a wrong gradient alone fails backward alone") {
  auto op = std::make_shared<CustomOp>();
  op->name = "place";
  op->forward = [](std::span<const Tensor> in) -> Tensors { return {tanh(in[0])}; };
  op->vjp = [](std::span<const Tensor>, std::span<const Tensor>, std::span<const Tensor> grad) -> Tensors {
    return {mul(grad[0], Tensor::from<double>({1, 2, 3, 4}, {4}))};
  };
  const TensorFunction f = [op](const Tensors& in) { return call(std::shared_ptr<const CustomOp>(op), in); };
  const Symmetry places{"places", {in_leg(0, 0), out_leg(0, 0)}};
  CHECK_FALSE(symmetry_check(f, {normal({4}, 9)}, places).pass);
  CHECK(symmetry_check(f, {normal({4}, 9)}, places, {.backward = false}).pass);
}

TEST_CASE("symmetry_check relabels indices along the permuted axis") {
  const Symmetry vocabulary{"vocabulary", {in_leg(0, 0)}, {1}};
  const TensorFunction f = [](const Tensors& in) -> Tensors { return {index_select(in[0], 0, in[1])}; };
  const Tensors inputs = {normal({5, 3}, 10), Tensor::from<std::int64_t>({4, 0, 0, 2}, {4})};
  const CheckResult good = symmetry_check(f, inputs, vocabulary);
  CHECK_MESSAGE(good.pass, good.detail);
  const Symmetry without_labels{"vocabulary", {in_leg(0, 0)}};
  CHECK_FALSE(symmetry_check(f, inputs, without_labels).pass);
}

TEST_CASE("symmetry_check refuses what would check nothing") {
  const TensorFunction f = [](const Tensors& in) -> Tensors { return {tanh(in[0])}; };
  CHECK_THROWS_WITH_AS(symmetry_check(f, {normal({1, 3}, 11)}, {"rows", {in_leg(0, 0), out_leg(0, 0)}}),
                       doctest::Contains("shorter than 2"), ShapeError);
  CHECK_THROWS_WITH_AS(symmetry_check(f, {normal({2, 3}, 12)}, {"mixed", {in_leg(0, 0), out_leg(0, 1)}}),
                       doctest::Contains("different extents: 2 and 3"), ShapeError);
  CHECK_THROWS_WITH_AS(symmetry_check(f, {normal({2, 3}, 13)}, {"none", {in_leg(4, 0)}}),
                       doctest::Contains("no axis among the given tensors"), ShapeError);
}

TEST_CASE("random_nonidentity_permutation never gives the identity") {
  std::set<std::vector<std::int64_t>> seen;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto p = random_nonidentity_permutation(3, {40, i}).to_vector<std::int64_t>();
    CHECK(p != std::vector<std::int64_t>{0, 1, 2});
    seen.insert(p);
  }
  CHECK(seen.size() == 5);
  CHECK_THROWS_AS(random_nonidentity_permutation(1, {40, 0}), ShapeError);
}

TEST_CASE("checks that would check nothing are refused") {
  const TensorFunction f = [](const Tensors& in) -> Tensors { return {tanh(in[0])}; };
  CHECK_THROWS_WITH_AS(gradcheck(f, {normal({3}, 41)}, {.directions = 0}), doctest::Contains("give at least 1"),
                       ValueError);
  const Symmetry rows{"rows", {in_leg(0, 0), out_leg(0, 0)}};
  CHECK_THROWS_WITH_AS(symmetry_check(f, {normal({3}, 42)}, rows, {.draws = 0}), doctest::Contains("give at least 1"),
                       ValueError);
}

TEST_CASE("values that are not finite pass no check") {
  const Symmetry rows{"rows", {in_leg(0, 0), out_leg(0, 0)}};
  const TensorFunction nan = [](const Tensors& in) -> Tensors { return {log(affine(in[0], 0.0, -1.0))}; };
  const TensorFunction infinite = [](const Tensors& in) -> Tensors { return {log(affine(in[0], 0.0, 0.0))}; };
  CHECK_FALSE(symmetry_check(nan, {normal({3}, 43)}, rows, {.backward = false}).pass);
  CHECK_FALSE(symmetry_check(infinite, {normal({3}, 44)}, rows, {.backward = false}).pass);
  // The differences give 0, the rule NaN.
  auto op = std::make_shared<CustomOp>();
  op->name = "constant";
  op->forward = [](std::span<const Tensor> in) -> Tensors { return {Tensor::zeros(in[0].shape(), DType::f64)}; };
  op->vjp = [](std::span<const Tensor> in, std::span<const Tensor>, std::span<const Tensor>) -> Tensors {
    return {Tensor::full(in[0].shape(), std::nan(""), DType::f64)};
  };
  const TensorFunction constant = [op](const Tensors& in) { return call(std::shared_ptr<const CustomOp>(op), in); };
  CHECK_FALSE(gradcheck(constant, {normal({3}, 45)}).pass);
}

TEST_CASE("an input with small gradients is not hidden by one with large ones") {
  const TensorFunction half = [](const Tensors& in) -> Tensors {
    return {mul(affine(in[0], 1e7, 0.0), in[0]), mul(in[1], in[1].detach())}; // the second gradient is half of what is
  };
  const CheckResult result = gradcheck(half, {normal({3}, 46), normal({3}, 47)});
  CHECK_FALSE(result.pass);
  CHECK(result.detail.find("input 1") != std::string::npos);
  const TensorFunction whole = [](const Tensors& in) -> Tensors {
    return {mul(affine(in[0], 1e7, 0.0), in[0]), mul(in[1], in[1])};
  };
  CHECK(gradcheck(whole, {normal({3}, 46), normal({3}, 47)}).pass);
  // A gradient that is zero in theory passes: softmax takes no notice of a number added to all.
  const TensorFunction blind = [](const Tensors& in) -> Tensors { return {softmax(add(in[0], in[1]))}; };
  CHECK(gradcheck(blind, {normal({3, 4}, 48), normal({}, 49)}).pass);
}
