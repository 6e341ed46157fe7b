#include "core/ops.h"
#include "core/random.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>

using namespace eg;

namespace {

Tensor counting(const Shape& shape, DType dtype = DType::f32) {
  return Tensor::arange(shape.numel(), dtype).reshape(shape);
}

Shape with_front(Shape shape, std::int64_t extent) {
  shape.insert(0, extent);
  return shape;
}

bool shares(const Tensor& a, const Tensor& b) { return a.storage() == b.storage(); }

std::vector<double> numbers(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

} // namespace

TEST_CASE("reshape shares storage wherever strides allow") {
  const Tensor x = counting({2, 3, 4});
  CHECK(shares(x.reshape({6, 4}), x));
  CHECK(shares(x.reshape({-1}), x));
  CHECK(x.reshape({4, -1}).shape() == Shape({4, 6}));
  CHECK(shares(x.transpose(0, 1).reshape({3, 2, 2, 2}), x)); // cuts an axis only
  const Tensor copied = x.transpose(0, 1).reshape({6, 4});   // joins axes that do not lie in one another
  CHECK_FALSE(shares(copied, x));
  CHECK(same_bits(copied, x.transpose(0, 1).contiguous().reshape({6, 4})));
  CHECK(shares(x.slice(2, 0, 4, 2).reshape({6, 2}), x)); // a dense run of equal steps
  CHECK(shares(x.slice(1, 1, 2).reshape({2, 4}), x));
  CHECK(Tensor::zeros({0, 3}).reshape({3, 0, 5}).shape() == Shape({3, 0, 5}));
  CHECK(Tensor::ones({1, 1}).reshape({}).item() == 1.0);
  CHECK(Tensor::ones({}).reshape({1, 1, 1}).at({0, 0, 0}) == 1.0);
}

TEST_CASE("views see the elements they should") {
  const Tensor x = counting({2, 3, 4});
  CHECK(x.transpose().at({1, 3, 2}) == x.at({1, 2, 3}));
  CHECK(x.permute({2, 0, 1}).at({3, 1, 2}) == x.at({1, 2, 3}));
  CHECK(numbers(x.slice(2, 1, 4, 2).select(0, 1).select(0, -1)) == std::vector<double>{21, 23});
  CHECK(x.slice(1, -2, 3).shape() == Shape({2, 2, 4}));
  CHECK(x.slice(1, -2, -1).at({0, 0, 0}) == 4.0);
  CHECK(x.slice(0, 2, 2).numel() == 0);
  CHECK(x.select(-1, 2).shape() == Shape({2, 3}));
  CHECK(x.unsqueeze(-1).squeeze(-1).shape() == x.shape());
  CHECK(numbers(Tensor::arange(3).unsqueeze(1).expand({3, 2})) == std::vector<double>{0, 0, 1, 1, 2, 2});
  CHECK(Tensor::arange(3).expand({4, 3}).strides()[0] == 0);
  Tensor whole = counting({2, 3});
  Tensor row = whole.select(0, 1);
  row.fill(7.0);
  CHECK(numbers(whole) == std::vector<double>{0, 1, 2, 7, 7, 7});
}

TEST_CASE("views refuse what lies outside") {
  const Tensor x = counting({2, 3});
  CHECK_THROWS_WITH_AS(x.select(1, 3), doctest::Contains("select: index 3 is outside [-3, 3)"), IndexError);
  CHECK_THROWS_AS(x.slice(1, 0, 4), IndexError);
  CHECK_THROWS_AS(x.slice(1, 2, 1), IndexError);
  CHECK_THROWS_AS(x.slice(1, 0, 3, -1), ValueError);
  CHECK_THROWS_AS(x.permute({0, 0}), ValueError);
  CHECK_THROWS_AS(x.squeeze(0), ShapeError);
  CHECK_THROWS_AS(x.expand({2, 6}), ShapeError);
  CHECK_THROWS_AS(x.reshape({std::int64_t{1} << 40, std::int64_t{1} << 40}), ShapeError);
  CHECK_THROWS_AS(x.reshape({1, 1, 1, 1, 1, 1, 1}).unsqueeze(0), ShapeError);
}

TEST_CASE("every other element of rows of any length is copied") {
  for (const DType dtype : {DType::f32, DType::f64, DType::i64})
    for (std::int64_t n = 1; n <= 70; ++n)
      for (const std::int64_t begin : {0, 1}) {
        if (begin >= n) continue;
        const Tensor x = Tensor::arange(3 * n).to(dtype).reshape({3, n});
        const Tensor packed = x.slice(1, begin, n, 2).contiguous();
        bool all = packed.is_contiguous();
        for (std::int64_t r = 0; r < 3; ++r)
          for (std::int64_t i = 0; i < packed.size(1); ++i)
            all = all && packed.at({r, i}) == static_cast<double>(r * n + begin + 2 * i);
        CAPTURE(n);
        CHECK(all);
      }
}

TEST_CASE("packed copies of every layout equal the elements one by one") {
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::u8}) {
    for (const Shape& shape : {Shape{65, 33}, Shape{16, 16}, Shape{3, 70, 17}, Shape{1, 5}, Shape{2, 1, 40}}) {
      const Tensor x = random_integers(shape, {1, 7}, 0, 250).to(dtype);
      const Tensor turned = x.transpose();
      CHECK(turned.contiguous().is_contiguous());
      CHECK(same_bits(turned.contiguous(), turned));
      CHECK(same_bits(turned.slice(-1, 0, turned.size(-1), 2).contiguous(), turned.slice(-1, 0, turned.size(-1), 2)));
      const Tensor repeated = x.unsqueeze(0).expand(with_front(shape, 3));
      CHECK(same_bits(contiguous(repeated), repeated));
    }
  }
  const Tensor deep = random_normal({3, 4, 5, 2, 3, 2}, {1, 8});
  const Tensor mixed = deep.permute({5, 1, 3, 0, 2, 4});
  CHECK(same_bits(mixed.contiguous(), mixed));
  CHECK(Tensor::zeros({2, 0}).transpose().contiguous().shape() == Shape({0, 2}));
  const Tensor packed = counting({2, 2});
  CHECK(packed.contiguous().id() == packed.id());
  CHECK_FALSE(shares(contiguous(packed), packed));
}

TEST_CASE("cast keeps values, saturates integers and turns NaN into 0") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = Tensor::from<double>({-1.9, 0.0, 2.9, 300.0, 1e30, -infinity, infinity, NAN}, {8});
  constexpr std::int64_t low = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t high = std::numeric_limits<std::int64_t>::max();
  CHECK(x.to(DType::i64).to_vector<std::int64_t>() == std::vector<std::int64_t>{-1, 0, 2, 300, high, low, high, 0});
  CHECK(x.to(DType::u8).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{0, 0, 2, 255, 255, 0, 255, 0});
  CHECK(x.to(DType::boolean).to_vector<bool>() == std::vector<bool>{true, false, true, true, true, true, true, true});
  CHECK(numbers(Tensor::from<std::int64_t>({-5, 256, 7}, {3}).to(DType::u8)) == std::vector<double>{0, 255, 7});
  CHECK(x.to(DType::f64).id() == x.id());
  CHECK(same_bits(random_normal({5, 7}, {2, 2}).transpose().to(DType::f64).to(DType::f32),
                  random_normal({5, 7}, {2, 2}).transpose()));
  CHECK_THROWS_AS(dtype_named("f16"), ValueError);
}

TEST_CASE("concat, stack and pad take every element type") {
  const Tensor a = Tensor::from<std::int64_t>({1, 2, 3, 4}, {2, 2});
  CHECK(numbers(concat({a, a.transpose()}, 1)) == std::vector<double>{1, 2, 1, 3, 3, 4, 2, 4});
  CHECK(numbers(stack({a, a}, -1)) == std::vector<double>{1, 1, 2, 2, 3, 3, 4, 4});
  CHECK(numbers(pad(a, 0, 1, 0, 9)) == std::vector<double>{9, 9, 1, 2, 3, 4});
  CHECK(numbers(pad(a.to(DType::boolean), 1, 0, 1, 1)) == std::vector<double>{1, 1, 1, 1, 1, 1});
  CHECK_THROWS_AS(pad(a, 0, 1, 0, NAN), ValueError);
  CHECK_THROWS_AS(concat({a, a.to(DType::f32)}, 0), DTypeError);
  CHECK_THROWS_AS(concat({}, 0), ValueError);
}

TEST_CASE("patches are in (channel, row, column) order and go back") {
  const Tensor images = counting({2, 3, 4, 6});
  const Tensor patches = patchify(images, 2);
  CHECK(patches.shape() == Shape({2, 6, 12}));
  CHECK(numbers(patches.select(0, 0).select(0, 4)) ==
        std::vector<double>{14, 15, 20, 21, 38, 39, 44, 45, 62, 63, 68, 69});
  CHECK(same_bits(unpatchify(patches, 3, 4, 6, 2), images));
  CHECK(same_bits(patchify(images.transpose(), 2), patchify(images.transpose().contiguous(), 2)));
}
