// Products of whole numbers of 8 bits: every kernel against plain loops, exact; emulated VNNI and tiles; rows of x in 8
// bits; what linear_int8 makes of them.

#include "core/gemm/int8_product.h"

#include "autograd/tape.h"
#include "core/gemm/matmul_precision.h"
#include "core/gemm/tile_kernels.h"
#include "core/ops.h"
#include "core/threads/parallel.h"
#include "support/emulated_tiles.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace eg;
using int8_product::Engine;

namespace {

namespace tiles = gemm::tiles;
using tiles::Line;

/// VPDPBUSD of 8 lanes: four products of unsigned and signed bytes and a sum, modulo 2^32.
struct Quads {
  static constexpr int lanes = 8, rows = 4, vectors = 2;
  static constexpr bool excess = true;
  struct Vector {
    std::uint32_t of[lanes];
  };
  using Right = Vector;
  static Vector zero() { return {}; }
  static Vector filled(std::uint32_t word) {
    Vector v;
    for (auto& x : v.of) x = word;
    return v;
  }
  static Vector load(const std::uint32_t* words) {
    Vector v;
    std::memcpy(&v, words, sizeof v);
    return v;
  }
  static Right right(const Vector& v) { return v; }
  static Vector excess_of_left() { return filled(0x80808080U); }
  static Vector broadcast(std::uint32_t word) { return filled(word ^ 0x80808080U); }
  static void store(const Vector& v, std::int32_t* to) { std::memcpy(to, &v, sizeof v); }
  static Vector subtract(Vector a, const Vector& b) {
    for (int i = 0; i < lanes; ++i) a.of[i] -= b.of[i];
    return a;
  }
  static Vector add_products(Vector sum, const Vector& left, const Vector& right) {
    for (int i = 0; i < lanes; ++i)
      for (int q = 0; q < 4; ++q) {
        const auto a = static_cast<std::int32_t>(left.of[i] >> 8 * q & 0xFFU);
        const auto b = static_cast<std::int32_t>(static_cast<std::int8_t>(right.of[i] >> 8 * q));
        sum.of[i] += static_cast<std::uint32_t>(a * b);
      }
    return sum;
  }
};
#include "core/gemm/int8_quads.inc"

/// As Quads, without what signed operands need.
struct Uncorrected : Quads {
  static constexpr bool excess = false;
};

void tiles_multiply(std::int64_t steps, const Line* left, const Line* right, std::int64_t rows, std::int64_t columns,
                    std::int32_t* sums) {
  tiles::multiply<test::EmulatedTiles, true>(
      steps, left, right, columns > tiles::most_rows ? tiles::side : tiles::most_rows, rows, columns, sums);
}
void with_emulated_tiles(FunctionRef<void()> work) {
  const tiles::Configured<test::EmulatedTiles> configured;
  work();
}

/// Of this processor, and emulated.
std::vector<Engine> all_engines() {
  std::vector<Engine> all = int8_product::engines();
  all.push_back({"emulated VNNI", multiply_quads<Quads>});
  all.push_back({"emulated tiles", tiles_multiply, with_emulated_tiles});
  return all;
}

const std::int8_t* codes(const Tensor& x) { return reinterpret_cast<const std::int8_t*>(x.bytes()); }

/// Whether the product is, bit for bit, that of sums in 64 bits.
bool is_exact(const Engine& engine, std::int64_t m, std::int64_t n, std::int64_t k, bool extreme) {
  const std::int64_t lda = k + 3, ldb = k + 5, ldc = n + 2;
  Tensor a = random_integers({m, lda}, {73, 1}, 1, 256).to(DType::u8); // 1 to 255: no -128 ...
  for (std::int64_t i = 0; i < a.numel(); ++i)
    if (auto& code = a.mutable_data<std::uint8_t>()[i]; extreme || code == 128) code = 129; // ... but -127
  Tensor b = random_integers({n, ldb}, {73, 2}, 0, 256).to(DType::u8);
  if (extreme) b.fill(128);
  const Tensor rows = random_uniform({m}, {73, 3}, 0.01, 0.02), columns = random_uniform({n}, {73, 4}, 0.01, 0.02),
               bias = random_normal({n}, {73, 5}), addend = random_normal({m, ldc}, {73, 6});
  Tensor c = Tensor::full({m, ldc}, 5.0);
  const int8_product::Product p{.m = m,
                                .n = n,
                                .k = k,
                                .a = codes(a),
                                .lda = lda,
                                .row_scales = rows.data<float>(),
                                .b = codes(b),
                                .ldb = ldb,
                                .column_scales = columns.data<float>(),
                                .plus = {bias.data<float>(), addend.data<float>(), ldc},
                                .c = c.mutable_data<float>(),
                                .ldc = ldc};
  int8_product::product(p, engine);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < ldc; ++j) {
      float expected = 5.0F; // beside C
      if (j < n) {
        std::int64_t sum = 0;
        for (std::int64_t q = 0; q < k; ++q) sum += std::int64_t{codes(a)[i * lda + q]} * codes(b)[j * ldb + q];
        expected =
            static_cast<float>(static_cast<std::int32_t>(sum)) * (rows.data<float>()[i] * columns.data<float>()[j]);
        expected += bias.data<float>()[j];
        expected += addend.data<float>()[i * ldc + j];
      }
      if (c.data<float>()[i * ldc + j] != expected) return false;
    }
  return true;
}

} // namespace

TEST_CASE("every kernel gives the exact sums on both sides of every cut") {
  for (const Engine& engine : all_engines()) {
    CAPTURE(engine.name);
    for (const std::int64_t m : {1, 4, 15, 16, 17, 32, 33})
      for (const std::int64_t n : {1, 8, 15, 16, 17, 31, 33})
        for (const std::int64_t k : {1, 3, 63, 64, 65}) CHECK(is_exact(engine, m, n, k, false));
    CHECK(is_exact(engine, 150, 290, 200, false));
    CHECK(is_exact(engine, 5, 20, 400, true)); // -127 times -128
  }
}

TEST_CASE("the longest sum is exact") {
  for (const Engine& engine : int8_product::engines()) CHECK(is_exact(engine, 2, 3, int8_product::most_terms, true));
}

TEST_CASE("a kernel that takes signed numbers for unsigned ones is seen") {
  CHECK_FALSE(is_exact({"uncorrected", multiply_quads<Uncorrected>}, 4, 20, 64, false));
}

TEST_CASE("rows in 8 bits are within half a step, and keep zeros and the largest number") {
  Tensor x = random_normal({5, 77}, {74, 1});
  float* const data = x.mutable_data<float>();
  std::fill_n(data + 77, 77, 0.0F);
  data[2 * 77 + 5] = std::numeric_limits<float>::infinity();
  data[3 * 77 + 76] = std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < 77; ++i) data[4 * 77 + i] *= 1e-41F;
  Tensor found = Tensor::empty({5, 77}, DType::u8), scales = Tensor::empty({5});
  int8_product::quantize_rows(5, 77, data, 77, reinterpret_cast<std::int8_t*>(found.mutable_data<std::uint8_t>()),
                              scales.mutable_data<float>());
  for (const int r : {0, 1, 4}) {
    const float scale = scales.data<float>()[r];
    int most = 0;
    for (int i = 0; i < 77; ++i) {
      const int code = codes(found)[r * 77 + i];
      CHECK(std::abs(data[r * 77 + i] - scale * static_cast<float>(code)) <= 0.5001F * scale);
      most = std::max(most, std::abs(code));
    }
    CHECK(most == (r == 0 ? 127 : 0));
  }
  for (const int r : {2, 3}) CHECK(std::isnan(scales.data<float>()[r]));
}

TEST_CASE("linear_int8 under int8 is near the product in f32, for more rows than few") {
  const Tensor x = random_normal({2, 20, 96}, {75, 1}), weight = random_normal({70, 96}, {75, 2}),
               bias = random_normal({70}, {75, 3}), addend = random_normal({2, 20, 70}, {75, 4});
  const std::vector<Tensor> parts = [&] {
    const Int8Matrix matrix = quantize_int8(weight);
    return std::vector<Tensor>{matrix.codes, matrix.scales};
  }();
  const auto value = [&](const Tensor& in) { return linear_int8(in, parts[0], parts[1], bias); };
  const Tensor full = value(x), few = value(slice(x, 1, 0, 4));
  const Tensor sum = linear_int8(x, parts[0], parts[1], bias, addend);
  const auto gradient = [&] {
    Tape tape;
    return tape.gradient(eg::sum(value(x)), {x})[0];
  };
  const Tensor slope = gradient();
  const MatmulPrecisionScope scope(MatmulPrecision::int8);
  const Tensor found = value(x);
  CHECK(relative_error(found, full) < 2e-2);
  CHECK(relative_error(found, full) > 1e-4); // rounding is seen
  CHECK(relative_error(linear_int8(x, parts[0], parts[1], bias, addend), sum) < 2e-2);
  CHECK(same_bits(value(slice(x, 1, 0, 4)), few)); // 8 rows
  CHECK(same_bits(gradient(), slope));
  for (const int threads : {1, 2, 3}) {
    parallel::set_threads(threads);
    CHECK(same_bits(value(x), found));
  }
  parallel::set_threads(0);
  // Each row of the result depends on its row of x alone.
  CHECK(same_bits(value(slice(x, 0, 0, 1)), slice(found, 0, 0, 1).contiguous()));
  Tensor bad = x.clone();
  bad.mutable_data<float>()[3 * 96 + 7] = std::numeric_limits<float>::infinity();
  const Tensor y = value(bad);
  CHECK(std::isnan(y.at({0, 3, 0})));
  CHECK(same_bits(slice(y, 1, 4, 20).contiguous(), slice(found, 1, 4, 20).contiguous()));
}
