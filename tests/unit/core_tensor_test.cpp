#include "core/call.h"
#include "core/memory/allocator.h"
#include "core/ops.h"
#include "core/registry.h"
#include "core/tensor.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <string>

using namespace eg;

TEST_CASE("tensors hold what they were made from") {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(x.shape() == Shape{2, 3});
  CHECK(x.strides() == Shape{3, 1});
  CHECK(x.at({1, 2}) == 6.0);
  CHECK(x.numel() == 6);
  CHECK(x.nbytes() == 24);
  CHECK(Tensor::full({2}, 1.0, DType::boolean).to_vector<bool>() == std::vector<bool>{true, true});
  CHECK(Tensor::zeros({}).item() == 0.0);
  CHECK(Tensor::empty({0, 5}).numel() == 0);
}

TEST_CASE("bad tensors are refused in words") {
  CHECK_THROWS_WITH_AS(Tensor::from<float>({1, 2}, {3}), "tensor: 2 values do not fill [3]", ShapeError);
  CHECK_THROWS_WITH_AS(Tensor::zeros({2}).data<double>(), "tensor: elements are f32, not f64", DTypeError);
  CHECK_THROWS_WITH_AS(Tensor::zeros({2, 2}).item(), "item: the tensor has 4 elements, not one: [2, 2]", ShapeError);
  CHECK_THROWS_WITH_AS(Tensor::zeros({2, 2}).at({0, 2}), "at: [0, 2] is outside [2, 2]", IndexError);
  CHECK_THROWS_WITH_AS(Tensor::zeros({-1}), "shape: negative extent in [-1]", ShapeError);
  CHECK_THROWS_AS(Tensor::empty({std::int64_t{1} << 40, std::int64_t{1} << 40}), ShapeError);
  CHECK_THROWS_AS(Tensor::empty({0, std::int64_t{1} << 40, std::int64_t{1} << 40}), ShapeError); // its strides
  CHECK_THROWS_AS(Tensor::empty({std::int64_t{1} << 62}, DType::f64), MemoryError);
  CHECK_THROWS_WITH_AS(Tensor::full({1}, -1.0, DType::u8), doctest::Contains("fill: -1 is not a value of u8"),
                       ValueError);
  CHECK_THROWS_AS(Tensor::full({1}, std::nan(""), DType::i64), ValueError);
  CHECK_THROWS_WITH_AS(Tensor::arange(300, DType::u8), doctest::Contains("is not a value of u8"), ValueError);
  CHECK_THROWS_AS(Shape({1, 2, 3, 4, 5, 6, 7, 8, 9}), ShapeError);
  CHECK_THROWS_WITH_AS(broadcast_shapes("add", {4, 3}, {5, 2}),
                       "add: shapes do not broadcast: a is [4, 3], b is [5, 2]", ShapeError);
  CHECK_THROWS_WITH_AS(normalize_axis("sum", 2, 2), "sum: axis 2 is outside [-2, 2)", IndexError);
  CHECK_THROWS_WITH_AS(Tensor::meta({2}, DType::f32).data<float>(), "tensor: a tensor without storage has no values",
                       Error);
}

TEST_CASE("an undefined tensor refuses every question in words") {
  const Tensor none;
  Tensor target;
  const Tensor one = Tensor::zeros({1});
  const auto refused = [](const char* asked, const auto& question) {
    CAPTURE(asked);
    const std::string words =
        std::string(asked) + ": this tensor is undefined: default constructed, it stands for \"not given\"";
    CHECK_THROWS_WITH_AS((void)question(), words.c_str(), Error);
  };
  refused("shape", [&] { return none.shape(); });
  refused("strides", [&] { return none.strides(); });
  refused("dtype", [&] { return none.dtype(); });
  refused("rank", [&] { return none.rank(); });
  refused("size", [&] { return none.size(0); });
  refused("numel", [&] { return none.numel(); });
  refused("nbytes", [&] { return none.nbytes(); });
  refused("storage", [&] { return none.storage(); });
  refused("is_contiguous", [&] { return none.is_contiguous(); });
  refused("item", [&] { return none.item(); });
  refused("at", [&] { return none.at({0}); });
  refused("data", [&] { return none.data<float>(); });
  refused("data", [&] { return target.mutable_data<float>(); });
  refused("data", [&] { return none.bytes(); });
  refused("data", [&] { return none.to_vector<float>(); });
  refused("detach", [&] { return none.detach(); });
  refused("select", [&] { return none.select(0, 0); });
  refused("view_as", [&] { return none.view_as({1}, {1}, 0); });
  const char* first = "same_bits: tensor a is undefined: default constructed, it stands for \"not given\"";
  const char* second = "relative_error: tensor b is undefined: default constructed, it stands for \"not given\"";
  CHECK_THROWS_WITH_AS((void)same_bits(none, one), first, Error);
  CHECK_THROWS_WITH_AS((void)relative_error(one, none), second, Error);
  CHECK_FALSE(none.defined());
  CHECK_FALSE(none.has_storage());
  CHECK_FALSE(none.exclusive());
  CHECK(none.id() == 0);
  CHECK(none.version() == 0);
}

TEST_CASE("every operation refuses an undefined input that it needs") {
  for (const OpDef* op : registry()) {
    CAPTURE(op->name);
    const std::vector<Sample> samples = op->samples(DType::f32);
    REQUIRE_FALSE(samples.empty());
    for (std::size_t i = 0; i < (op->variadic ? 1 : op->inputs.size()); ++i) {
      if (op->inputs[i].optional) continue;
      std::vector<Tensor> in = samples.front().in;
      in[i] = Tensor();
      CHECK_THROWS_AS((void)call(*op, in, samples.front().attrs), ValueError);
    }
  }
}

TEST_CASE("a view never leaves its storage") {
  const Tensor x = Tensor::arange(12, DType::f64).reshape({3, 4});
  CHECK(x.view_as({2, 2}, {4, -1}, 3).to_vector<double>() == std::vector<double>{3, 2, 7, 6});
  CHECK(x.slice(0, 2, 3).view_as({1}, {1}, -8).item() == 0.0);
  CHECK(x.view_as({0, 3}, {100, 1}, 99).numel() == 0);
  CHECK_THROWS_WITH_AS(x.view_as({3, 4}, {4, 1}, 1),
                       "view_as: [3, 4] with strides [4, 1] at element 1 does not lie in the storage of f64 [3, 4]",
                       ShapeError);
  CHECK_THROWS_AS(x.view_as({2}, {-1}, 0), ShapeError);
  CHECK_THROWS_AS(x.view_as({1}, {1}, -1), ShapeError);
  CHECK_THROWS_AS(x.view_as({2, 2}, {1}, 0), ShapeError);
  CHECK_THROWS_AS(x.view_as({3}, {std::int64_t{1} << 62}, 0), ShapeError);
}

TEST_CASE("views share storage and copies do not") {
  Tensor x = Tensor::arange(6, DType::f64);
  const Tensor view = x.reshape({2, 3}).transpose();
  Tensor copy = x.clone();
  x.fill(7.0);
  CHECK(view.at({2, 1}) == 7.0);
  CHECK(copy.at({5}) == 5.0);
  Tensor column = copy.reshape({2, 3}).slice(1, 0, 1);
  column.copy_from(Tensor::full({2, 1}, -1.0, DType::f64));
  CHECK(copy.to_vector<double>() == std::vector<double>{-1, 1, 2, -1, 4, 5});
}

TEST_CASE("writes raise the storage's version and name the writer") {
  Tensor x = Tensor::zeros({3});
  const std::uint64_t before = x.version();
  x.mutable_data<float>("test writer");
  CHECK(x.version() == before + 1);
  CHECK(std::string(x.storage()->writer) == "test writer");
}

TEST_CASE("identifiers belong to values, not to handles") {
  const Tensor x = Tensor::zeros({3});
  const Tensor& same = x;
  CHECK(x.id() == same.id());
  CHECK(x.id() != x.detach().id());
  CHECK(Tensor().id() == 0);
}

TEST_CASE("comparisons know NaN, infinity and signed zero") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor a = Tensor::from<float>({nan, inf, 0.0F}, {3});
  CHECK(same_bits(a, a.clone()));
  CHECK_FALSE(same_bits(a, Tensor::from<float>({nan, inf, -0.0F}, {3})));
  CHECK(relative_error(a, a) == 0.0);
  CHECK(std::isinf(relative_error(a, Tensor::from<float>({nan, 1.0F, 0.0F}, {3}))));
  CHECK(std::isinf(relative_error(Tensor::ones({1}), Tensor::zeros({1}))));
  CHECK(relative_error(Tensor::from<float>({1.0F, 4.0F}, {2}), Tensor::from<float>({2.0F, 4.0F}, {2})) == 0.25);
}

TEST_CASE("the allocator reuses blocks, counts them and keeps its limit") {
  allocator::release_cache();
  const AllocatorStats before = allocator::stats();
  { const Tensor x = Tensor::empty({1000, 1000}); }
  const AllocatorStats after_one = allocator::stats();
  CHECK(after_one.live_bytes == before.live_bytes);
  CHECK(after_one.cached_bytes >= 4000000);
  { const Tensor x = Tensor::empty({1000, 1000}); }
  CHECK(allocator::stats().system_calls == after_one.system_calls);
  CHECK(allocator::stats().reuses == after_one.reuses + 1);
  CHECK(reinterpret_cast<std::uintptr_t>(Tensor::empty({3}).bytes()) % allocator::alignment == 0);
  const std::size_t limit = allocator::limit();
  allocator::set_limit(allocator::stats().live_bytes + 1000000);
  CHECK_THROWS_WITH_AS(Tensor::empty({1000, 1000}), doctest::Contains("more bytes do not fit"), MemoryError);
  allocator::set_limit(limit);
  CHECK_NOTHROW(Tensor::empty({1000, 1000}));
}

TEST_CASE("adopted memory is shared, not copied, and lives as long as the tensor") {
  bool gone = false;
  std::vector<float> values{1, 2, 3, 4, 5, 6, 7};
  {
    const std::shared_ptr<std::byte> memory(reinterpret_cast<std::byte*>(values.data() + 1),
                                            [&gone](std::byte*) { gone = true; });
    Tensor x = Tensor::adopt(memory, 24, {2, 3}, DType::f32);
    CHECK(x.to_vector<float>() == std::vector<float>{2, 3, 4, 5, 6, 7});
    CHECK(x.version() == 1); // its values were there before: the first write is a change
    x.mutable_data<float>()[0] = -2;
    CHECK(x.version() == 2);
    CHECK(values == std::vector<float>{1, -2, 3, 4, 5, 6, 7});
    CHECK_THROWS_WITH_AS(Tensor::adopt(memory, 23, {2, 3}, DType::f32), "adopt: [2, 3] of f32 do not lie in 23 bytes",
                         ValueError);
    CHECK_THROWS_WITH_AS(Tensor::adopt(nullptr, 24, {2, 3}, DType::f32), "adopt: [2, 3] of f32 do not lie in 24 bytes",
                         ValueError);
    CHECK_THROWS_AS(Tensor::adopt(memory, 24, {-2}, DType::f32), ShapeError);
    const std::shared_ptr<std::byte> odd(memory, memory.get() + 2);
    CHECK_THROWS_WITH_AS(Tensor::adopt(odd, 20, {2}, DType::f32),
                         "adopt: elements of f32 must begin at a multiple of 4 bytes", ValueError);
    CHECK(Tensor::adopt(nullptr, 0, {0, 3}, DType::f64).to_vector<double>().empty());
  }
  CHECK(gone);
}
