// What the tape keeps, and for how long.

#include "autograd/tape.h"
#include "core/memory/allocator.h"
#include "core/ops.h"
#include "unit/autograd_vectors.h"

#include <doctest/doctest.h>

#include <cstddef>

using namespace eg;
using namespace eg::test;

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
