#include "core/random.h"
#include "core/tensor.h"

#include <cmath>
#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("matrices print as aligned rows with type and shape") {
  CHECK(Tensor::from<float>({1.5F, -2.25F, 10, 0}, {2, 2}).str(2) == "[[ 1.50, -2.25],\n [10.00,  0.00]]\nf32 [2, 2]");
  CHECK(Tensor::from<std::int64_t>({1, -20, 300, 4}, {2, 2}).str() == "[[  1, -20],\n [300,   4]]\ni64 [2, 2]");
  CHECK(Tensor::from<bool>({true, false}, {2}).str() == "[ true, false]\nbool [2]");
  CHECK(Tensor::from<std::uint8_t>({0, 255}, {2}).str() == "[  0, 255]\nu8 [2]");
  CHECK(Tensor::from<double>({1, 2}, {2}).str() == "[1.0, 2.0]\nf64 [2]");
}

TEST_CASE("scalars, empty, undefined and meta tensors print") {
  CHECK(Tensor::full({}, 2.5, DType::f64).str() == "2.5000\nf64 []");
  CHECK(Tensor::zeros({2, 0}).str() == "[]\nf32 [2, 0]");
  CHECK(Tensor().str() == "undefined");
  CHECK(Tensor::meta({3}, DType::f64).str() == "f64 [3] without values");
}

TEST_CASE("NaN and infinities stand beside numbers") {
  CHECK(Tensor::from<double>({NAN, INFINITY, -INFINITY, 0.5}, {4}).str(1) == "[ nan,  inf, -inf,  0.5]\nf64 [4]");
}

TEST_CASE("very large and very small values print in scientific notation") {
  CHECK(Tensor::from<double>({1e-9, 2e-9}, {2}).str(1) == "[1.0e-09, 2.0e-09]\nf64 [2]");
  CHECK(Tensor::from<double>({1e12, 0}, {2}).str(0) == "[1e+12, 0e+00]\nf64 [2]");
}

TEST_CASE("long axes are shortened in the middle") {
  CHECK(Tensor::arange(12).str() == "[ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11]\ni64 [12]");
  CHECK(Tensor::arange(1000).str() == "[  0,   1,   2, ..., 997, 998, 999]\ni64 [1000]");
  CHECK(Tensor::arange(40).reshape({20, 2}).str() ==
        "[[ 0,  1],\n [ 2,  3],\n [ 4,  5],\n ...,\n [34, 35],\n [36, 37],\n [38, 39]]\ni64 [20, 2]");
  CHECK(Tensor::zeros({100, 100, 100}).str().size() < 1500);
}

TEST_CASE("three axes print matrices apart, views print what they show") {
  const Tensor x = Tensor::arange(8).reshape({2, 2, 2});
  CHECK(x.str() == "[[[0, 1],\n  [2, 3]],\n\n [[4, 5],\n  [6, 7]]]\ni64 [2, 2, 2]");
  CHECK(x.select(0, 1).transpose().str() == "[[4, 6],\n [5, 7]]\ni64 [2, 2]");
  CHECK_THROWS_AS(x.str(-1), ValueError);
}
