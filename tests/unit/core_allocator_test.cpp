#include "core/memory/allocator.h"
#include "core/tensor.h"

#include <doctest/doctest.h>

#include <cstdint>

using namespace eg;

TEST_CASE("sizes near the end of what can be counted are refused, whatever the limit") {
  const std::size_t limit = allocator::limit();
  const std::size_t live = allocator::stats().live_bytes;
  for (const std::size_t bound : {limit, std::size_t{SIZE_MAX}}) {
    allocator::set_limit(bound);
    for (const std::size_t bytes :
         {std::size_t{SIZE_MAX}, SIZE_MAX - 7, SIZE_MAX - (std::size_t{1} << 40), SIZE_MAX / 2 + 1})
      CHECK_THROWS_WITH_AS(allocator::allocate(bytes), doctest::Contains("more bytes do not fit"), MemoryError);
    CHECK_THROWS_AS(Tensor::empty({(std::int64_t{1} << 61) - 1}, DType::f64), MemoryError);
  }
  allocator::set_limit(limit);
  CHECK(allocator::stats().live_bytes == live);
}

TEST_CASE("a limit below what is in use refuses, and does not wrap") {
  const std::size_t limit = allocator::limit();
  const Tensor held = Tensor::zeros({1 << 16});
  allocator::set_limit(1);
  CHECK_THROWS_AS(Tensor::empty({16}), MemoryError);
  allocator::set_limit(limit);
  CHECK_NOTHROW(Tensor::empty({16}));
}
