// Calls that users of other libraries make: of tensors without axes, of vectors in products, of whole numbers in
// arithmetic, with bounds in the wrong order.

#include "autograd/tape.h"
#include "core/base/error.h"
#include "core/call.h"
#include "core/ops.h"
#include "core/reduction.h"

#include <cstdint>
#include <doctest/doctest.h>
#include <vector>

using namespace eg;

TEST_CASE("axes 0 and -1 of a tensor without axes: reductions, softmax and log_softmax take them") {
  const Tensor x = Tensor::full({}, 3.5);
  for (const Reduction mode : {Reduction::fast, Reduction::exact}) {
    const ReductionScope scope(mode);
    for (const std::int64_t axis : {0, -1}) {
      for (Tensor (*f)(const Tensor&, const std::vector<std::int64_t>&, bool) : {&sum, &mean, &amax, &logsumexp}) {
        Tape tape;
        const Tensor y = f(x, {axis}, true);
        CHECK(y.shape() == Shape({}));
        CHECK(y.item() == 3.5);
        CHECK(tape.gradient(y, {x})[0].item() == 1.0);
      }
      Tape tape;
      const Tensor y = softmax(x, static_cast<int>(axis)) + log_softmax(x, static_cast<int>(axis));
      CHECK(y.item() == 1.0);
      CHECK(tape.gradient(y, {x})[0].item() == 0.0);
    }
  }
}

TEST_CASE("other axes of a tensor without axes are refused with that reason") {
  const Tensor x = Tensor::full({}, 3.5);
  const char* const words = "axis 1 is named, but the tensor has no axes; reshape it to [1] first";
  CHECK_THROWS_WITH_AS(sum(x, {1}), doctest::Contains(words), IndexError);
  CHECK_THROWS_WITH_AS(softmax(x, 1), doctest::Contains(words), IndexError);
  CHECK_THROWS_WITH_AS(cumsum(x, -1), doctest::Contains("the tensor has no axes"), IndexError);
  CHECK_THROWS_WITH_AS(sum(x, {0, -1}), doctest::Contains("the tensor has no axes"), IndexError);
  CHECK_THROWS_WITH_AS(sum(Tensor::zeros({2}), {1}), "sum: axis 1 is outside [-1, 1)", IndexError); // control
}

TEST_CASE("vectors in matmul are refused with the way out") {
  const Tensor a = Tensor::ones({2, 3}), v = Tensor::ones({3}), w = Tensor::ones({2});
  CHECK_THROWS_WITH_AS(matmul(a, v),
                       "matmul: inputs need two axes or more, b is [3]; a vector becomes a column by b.unsqueeze(1), "
                       "or use einsum",
                       ShapeError);
  CHECK_THROWS_WITH_AS(matmul(w, a),
                       "matmul: inputs need two axes or more, a is [2]; a vector becomes a row by a.unsqueeze(0), or "
                       "use einsum",
                       ShapeError);
  CHECK(matmul(a, v.unsqueeze(1)).shape() == Shape({2, 1}));
  CHECK(matmul(w.unsqueeze(0), a).shape() == Shape({1, 3}));
}

TEST_CASE("fractions beside whole numbers are refused in the words of the caller") {
  const Tensor k = Tensor::from<std::int64_t>({1, 2}, {2});
  const char* const words =
      "arithmetic of a tensor and a number: x is i64, and 0.5 is no whole number; convert it with to(\"f32\")";
  CHECK_THROWS_WITH_AS(k + 0.5, words, DTypeError);
  CHECK_THROWS_WITH_AS(k * 0.5, words, DTypeError);
  CHECK((k - 1.0).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1});
  CHECK((k.to(DType::f64) + 0.5).to_vector<double>() == std::vector<double>{1.5, 2.5});
}

TEST_CASE("hardtanh refuses bounds in the wrong order, clamp takes the upper one") {
  const Tensor x = Tensor::zeros({2});
  CHECK_THROWS_WITH_AS(hardtanh(x, 0.5, -0.5), "hardtanh: min_val must not exceed max_val: they are 0.5 and -0.5",
                       ValueError);
  CHECK(hardtanh(x, 0.5, 0.5).to_vector<float>() == std::vector<float>{0.5F, 0.5F});
  CHECK(clamp(x, 0.5, -0.5).to_vector<float>() == std::vector<float>{-0.5F, -0.5F});
}
