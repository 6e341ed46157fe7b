// A clone is an operation: gradients pass it. Copies that are none say so by name.

#include "autograd/check.h"
#include "autograd/tape.h"
#include "core/ops.h"
#include "optim/average.h"
#include "optim/optimizer.h"
#include "unit/autograd_vectors.h"

#include <doctest/doctest.h>

using namespace eg;
using namespace eg::test;

TEST_CASE("tape: the gradient of a clone is its cotangent") {
  const Tensor x = vec({1, 2});
  Tape tape;
  const Tensor copy = x.clone();
  const Tensor y = sum(mul(copy, x));
  CHECK(copy.storage() != x.storage());
  CHECK(list(tape.gradient(y, {x})[0]) == std::vector<double>{2, 4});
}

TEST_CASE("tape: a clone of a strided view is packed and hands its gradient through") {
  const Tensor x = vec({1, 2, 3, 4});
  Tape tape;
  const Tensor copy = x.reshape({2, 2}).transpose().clone();
  CHECK(copy.is_contiguous());
  const Tensor y = sum(mul(copy.reshape({4}), vec({1, 2, 3, 4})));
  CHECK(list(tape.gradient(y, {x})[0]) == std::vector<double>{1, 3, 2, 4});
}

TEST_CASE("tape: a clone made while recording is paused is a constant that may be changed") {
  const Tensor x = vec({1, 2});
  Tape tape;
  const Tensor h = affine(x, 2.0, 0.0);
  SUBCASE("as the refusal of a changed value says") {
    Tensor copy = h.clone();
    copy.fill(3.0);
    CHECK_THROWS_WITH_AS(mul(copy, x), doctest::Contains("change a clone() made while recording is paused"),
                         AutogradError);
  }
  Tensor copy;
  {
    const PauseRecording pause;
    copy = h.clone();
  }
  copy.fill(3.0);
  CHECK(list(tape.gradient(sum(mul(copy, x)), {x})[0]) == std::vector<double>{3, 3});
}

TEST_CASE("copy_from while a tape records is refused, for it would cut the gradient") {
  const Tensor x = vec({1, 2});
  Tensor to = vec({0, 0});
  {
    const Tape tape;
    CHECK_THROWS_WITH_AS(
        to.copy_from(x * 2.0),
        "copy_from: a tape is recording and would not see this write, so no gradient would pass it; "
        "compute the value with an operation (clone, where, concat), or write while recording is paused",
        AutogradError);
    CHECK(list(to) == std::vector<double>{0, 0});
    const PauseRecording pause;
    to.copy_from(x);
  }
  to.copy_from(to * 2.0);
  CHECK(list(to) == std::vector<double>{2, 4});
}

TEST_CASE("an optimiser with a whole-tensor rule steps while a tape is open") {
  Tensor w = Tensor::ones({3, 3}, DType::f64);
  const auto muon = optim::make_optimizer("muon", {w}, 0.0);
  const Tape tape;
  muon->step({Tensor::ones({3, 3}, DType::f64)}, 0.1);
  CHECK(w.at({0, 0}) != 1.0);
}

TEST_CASE("copies that are no operation: a check and a weight average under an open tape") {
  const Tensor x = vec({0.5, -1.5});
  const Tape tape;
  const std::size_t before = tape.size();
  optim::WeightAverage average({x}, 0.5);
  CHECK(tape.size() == before);
  CHECK(gradcheck([](const std::vector<Tensor>& in) { return std::vector<Tensor>{mul(in[0], in[0])}; }, {x}).pass);
}

TEST_CASE("an undefined tensor has no clone") {
  CHECK_THROWS_WITH_AS(Tensor().clone(),
                       "clone: this tensor is undefined: default constructed, it stands for \"not given\"", Error);
}
