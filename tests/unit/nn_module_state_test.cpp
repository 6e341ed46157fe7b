#include "core/memory/allocator.h"
#include "nn/layers.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

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

TEST_CASE("contents: a module that adopts another one's has its tensors and its flags") {
  nn::Mlp from(3, 4, nn::Activation::relu, {1, 0}), to(3, 4, nn::Activation::relu, {2, 0});
  from.to(DType::f64);
  from.fc2.eval();
  to.adopt(from.contents());
  CHECK(to.fc1.weight.id() == from.fc1.weight.id());
  CHECK(to.fc2.bias.id() == from.fc2.bias.id());
  CHECK(to.training());
  CHECK(to.fc1.training());
  CHECK_FALSE(to.fc2.training());
  Pair a, b;
  b.buffer.fill(5.0);
  a.adopt(b.contents());
  CHECK(a.buffer.at({3, 3}) == 5.0);
}

TEST_CASE("contents: what does not fit is refused, and nothing is changed") {
  nn::Linear linear(3, 2, {1, 0});
  const nn::Module::Contents before = linear.contents();
  const Tensor f32 = Tensor::zeros({2, 3});
  const auto adopt = [&](std::vector<Tensor> tensors, std::vector<bool> training) {
    linear.adopt({std::move(tensors), std::move(training)});
  };
  CHECK_THROWS_WITH_AS(adopt({f32}, {true}),
                       "Module::adopt: 1 tensors and 1 modules were given, this module has 2 and 1", ValueError);
  CHECK_THROWS_AS(adopt({f32, Tensor::zeros({2})}, {true, true}), ValueError);
  CHECK_THROWS_WITH_AS(adopt({f32, Tensor::zeros({3})}, {false}), "Module::adopt: tensor 1 is [3], this module has [2]",
                       ShapeError);
  CHECK_THROWS_WITH_AS(adopt({f32, Tensor::zeros({2}, DType::i64)}, {false}),
                       "Module::adopt: tensor 1 is i64, this module has f32", DTypeError);
  CHECK_THROWS_WITH_AS(adopt({f32, Tensor::meta({2}, DType::f32)}, {false}), "Module::adopt: tensor 1 has no values",
                       ValueError);
  CHECK(linear.weight.id() == before.tensors[0].id());
  CHECK(linear.training());
}

TEST_CASE("a part that stands under two names has one parameter, which a scope gives back") {
  struct Twice : nn::Module {
    Pair pair;
    Twice() {
      register_module("first", pair);
      register_module("second", pair);
    }
  } twice;
  CHECK(twice.parameters().size() == 2);
  CHECK(twice.state_dict().size() == 4);
  {
    const std::vector<Tensor> values{Tensor::full({64, 64}, 7.0), Tensor::full({64, 64}, 8.0)};
    const nn::ParameterScope scope(twice, values);
    CHECK(twice.pair.a.at({3, 3}) == 7.0);
  }
  CHECK(twice.pair.a.at({3, 3}) == 1.0);
  CHECK(twice.pair.b.at({3, 3}) == 2.0);
}
