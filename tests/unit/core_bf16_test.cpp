// bf16: rounding, storing, converting, printing, products.

#include "core/ops.h"
#include "core/random.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <doctest/doctest.h>
#include <limits>
#include <vector>

using eg::BFloat16;
using eg::DType;
using eg::Tensor;

namespace {

/// The nearest of the two bf16 neighbours of x, found by trying both; the even one of a tie.
std::uint16_t nearest_by_search(double x) {
  const auto above = std::bit_cast<std::uint32_t>(static_cast<float>(x)) >> 16;
  std::uint16_t best = 0;
  double least = INFINITY;
  for (std::uint32_t bits = above - 1; bits != above + 3; ++bits) {
    const auto candidate = std::bit_cast<float>(bits << 16);
    if (!std::isfinite(candidate)) continue;
    const double gap = std::abs(static_cast<double>(candidate) - x);
    if (gap < least || (gap == least && bits % 2 == 0)) {
      best = static_cast<std::uint16_t>(bits);
      least = gap;
    }
  }
  return best;
}

} // namespace

TEST_CASE("bf16 rounds to nearest, ties to even, from f32 and from f64") {
  const Tensor x = eg::random_normal({20000}, {5, 6}, 0.0, 30.0, DType::f64);
  for (const double v : x.to_vector<double>()) {
    CHECK(BFloat16(v).bits == nearest_by_search(v));
    CHECK(BFloat16(static_cast<float>(v)).bits == nearest_by_search(static_cast<double>(static_cast<float>(v))));
  }
  CHECK(BFloat16(1.0F + 0x1p-8F).bits == BFloat16(1.0F).bits);                   // a tie, down to even
  CHECK(static_cast<float>(BFloat16(1.0F + 3 * 0x1p-8F)) == 1.0F + 0x1p-6F);     // a tie, up to even
  CHECK(static_cast<float>(BFloat16(1.0 + 0x1p-8 + 0x1p-40)) == 1.0F + 0x1p-7F); // just above: f32 would make it a tie
  CHECK(static_cast<float>(BFloat16(1.0 + 3 * 0x1p-8 - 0x1p-40)) == 1.0F + 0x1p-7F);
}

TEST_CASE("bf16 keeps NaN, infinities, signed zeros and every one of its own numbers") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto value = std::bit_cast<float>(bits << 16);
    const BFloat16 back(value);
    if (std::isnan(value)) {
      CHECK(std::isnan(static_cast<float>(back)));
    } else {
      CHECK(back.bits == bits);
      CHECK(BFloat16(static_cast<double>(value)).bits == bits);
    }
  }
  CHECK(
      std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(0x7F800001U))))); // its NaN bits lie in the lost half
  CHECK(static_cast<float>(BFloat16(3.4e38F)) == INFINITY);
  CHECK(static_cast<float>(BFloat16(-1e300)) == -INFINITY);
  CHECK(BFloat16(1e-60).bits == 0);
  CHECK(BFloat16(-1e-60).bits == 0x8000);
}

TEST_CASE("bf16 tensors are stored, moved, compared and converted") {
  const Tensor x = eg::random_normal({6, 5}, {7, 8});
  const Tensor h = x.to(DType::bf16);
  CHECK(h.dtype() == DType::bf16);
  CHECK(h.nbytes() == 60);
  CHECK(eg::name_of(DType::bf16) == "bf16");
  CHECK(eg::dtype_named("bf16") == DType::bf16);
  CHECK(eg::relative_error(h, x) < 0x1p-8);
  CHECK(eg::same_bits(h.to(DType::f32).to(DType::bf16), h));
  CHECK(eg::same_bits(h.to(DType::f64).to(DType::bf16), h));
  CHECK(eg::same_bits(h.transpose().contiguous().to(DType::f32), h.to(DType::f32).transpose().contiguous()));
  CHECK(eg::same_bits(eg::concat({h, h}, 0).slice(0, 6, 12), h));
  CHECK(eg::same_bits(eg::pad(h, 1, 1, 0, 0.5).slice(1, 1, 6), h));
  CHECK(eg::same_bits(eg::index_select(h, 0, Tensor::arange(6)), h));
  CHECK(eg::same_bits(eg::where(eg::ge(h, 0.0), h, h), h));
}

TEST_CASE("bf16 from and to whole numbers and truth values") {
  const Tensor h = Tensor::from<double>({-1.5, 0, 300, NAN}, {4}).to(DType::bf16);
  CHECK(h.to(DType::i64).to_vector<std::int64_t>() == std::vector<std::int64_t>{-1, 0, 300, 0});
  CHECK(h.to(DType::u8).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{0, 0, 255, 0});
  CHECK(h.to(DType::boolean).to_vector<bool>() == std::vector<bool>{true, false, true, true});
  CHECK(Tensor::arange(3).to(DType::bf16).at({2}) == 2.0);
  CHECK(Tensor::full({1}, 1.0, DType::boolean).to(DType::bf16).item() == 1.0);
}

TEST_CASE("bf16 prints as numbers with its name") {
  CHECK(Tensor::from<double>({0.5, -2.25}, {2}).to(DType::bf16).str(2) == "[ 0.50, -2.25]\nbf16 [2]");
}

TEST_CASE("products of bf16 operands are those of the same numbers in f32") {
  const Tensor a = eg::random_normal({7, 33}, {1, 1}).to(DType::bf16);
  const Tensor b = eg::random_normal({33, 5}, {1, 2}).to(DType::bf16);
  const Tensor wide_a = a.to(DType::f32);
  const Tensor wide_b = b.to(DType::f32);
  const Tensor y = eg::matmul(a, b);
  CHECK(y.dtype() == DType::f32);
  CHECK(eg::same_bits(y, eg::matmul(wide_a, wide_b)));
  CHECK(eg::same_bits(eg::matmul(wide_a, b), y));
  const Tensor w = b.transpose();
  CHECK(eg::same_bits(eg::linear(a, w), eg::linear(wide_a, w.to(DType::f32))));
  CHECK_THROWS_AS(eg::matmul(a, wide_b.to(DType::f64)), eg::DTypeError);
}

TEST_CASE("other operations refuse bf16 and say what to do") {
  const Tensor h = Tensor::ones({3}, DType::bf16);
  CHECK_THROWS_WITH_AS(eg::exp(h), "exp: x must be f32 or f64, it is bf16; convert it with to(\"f64\")",
                       eg::DTypeError);
  CHECK_THROWS_AS(eg::add(h, h), eg::DTypeError);
  CHECK_THROWS_AS(eg::sum(h), eg::DTypeError);
  CHECK_THROWS_AS(eg::softmax(h), eg::DTypeError);
  CHECK_THROWS_AS(eg::random_normal({3}, {1, 2}, 0.0, 1.0, DType::bf16), eg::Error);
}
