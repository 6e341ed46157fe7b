#include "core/allocator.h"
#include "nn/layers.h"

#include <doctest/doctest.h>

using namespace eg;

namespace {

/// Two square matrices.
struct Pair : nn::Module {
  Tensor a = Tensor::full({64, 64}, 1.0);
  Tensor b = Tensor::full({64, 64}, 2.0);
  Tensor buffer = Tensor::full({64, 64}, 3.0);
  Pair() {
    register_parameter("a", a);
    register_parameter("b", b);
    register_buffer(buffer);
  }
};

/// Leaves room for one more f64 [64, 64] while it lives.
class Tight {
public:
  Tight() : limit_(allocator::limit()) { allocator::set_limit(allocator::stats().live_bytes + 40000); }
  ~Tight() { allocator::set_limit(limit_); }
  Tight(const Tight&) = delete;
  Tight& operator=(const Tight&) = delete;

private:
  std::size_t limit_;
};

} // namespace

TEST_CASE("load_state_dict: handles of the module itself, exchanged") {
  Pair pair;
  pair.load_state_dict({{"a", pair.b}, {"b", pair.a}});
  CHECK(pair.a.at({3, 3}) == 2.0);
  CHECK(pair.b.at({3, 3}) == 1.0);
}

TEST_CASE("load_state_dict and to change nothing when memory runs out on the way") {
  Pair pair;
  SUBCASE("load_state_dict") {
    const Tensor wide = Tensor::full({64, 64}, 5.0, DType::f64);
    // A model in f64 whose values come in f32 needs 32 KiB for each.
    pair.to(DType::f64);
    const Tensor narrow = wide.to(DType::f32);
    {
      const Tight tight;
      CHECK_THROWS_AS(pair.load_state_dict({{"a", narrow}, {"b", narrow}}), MemoryError);
    }
    CHECK(pair.a.at({3, 3}) == 1.0);
    CHECK(pair.b.at({3, 3}) == 2.0);
  }
  SUBCASE("to") {
    {
      const Tight tight;
      CHECK_THROWS_AS(pair.to(DType::f64), MemoryError);
    }
    CHECK(pair.a.dtype() == DType::f32);
    CHECK(pair.b.dtype() == DType::f32);
    CHECK(pair.buffer.dtype() == DType::f32);
  }
}
