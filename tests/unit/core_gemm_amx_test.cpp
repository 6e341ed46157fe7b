// Products in the tile registers of Intel's AMX: the kernels on emulated registers, what the registers refuse, and who
// may use them.

#include "core/bf16.h"
#include "core/gemm/amx.h"
#include "core/gemm/gemm_bf16.h"
#include "core/gemm/tile_kernels.h"
#include "core/ops.h"
#include "support/emulated_tiles.h"
#include "unit/gemm_case.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

using namespace eg;
using gemm::tiles::Configuration;
using gemm::tiles::Line;
using gemm::tiles::whole_tiles;
using test::EmulatedTiles;
using test::TileFault;

namespace {

/// What core/gemm/amx_kernels.cpp makes of the processor's registers, of a policy.
template <class Tiles> struct Kernel : gemm::tiles::Bf16KernelBase<Tiles> {
  static void pack_along(const float* x, std::int64_t ld, const gemm::Panels& panels, Line* out) {
    gemm::tiles::pack_bf16<true>(x, ld, panels, out);
  }
  static void pack_across(const float* x, std::int64_t ld, const gemm::Panels& panels, Line* out) {
    gemm::tiles::pack_bf16<false>(x, ld, panels, out);
  }
  template <bool transposed>
  static void multiply(std::int64_t rows, std::int64_t steps, const gemm::Left<Line>& left, const Line* right,
                       const gemm::Target<float>& target, std::int64_t columns) {
    gemm::tiles::multiply_bf16<Tiles>(rows, steps, left.data, right, target, columns);
  }
};

template <class Tiles> void product(const gemm::Product<float>& p, FunctionRef<void(const blas::Tile&)> after) {
  gemm::Run<Kernel<Tiles>, false>(p, after)();
}

/// Mistakes that a kernel could make, as instructions that do something else.
struct SwapsOperands : EmulatedTiles {
  template <bool whole_numbers, int C, int A, int B> static void add_products() {
    EmulatedTiles::add_products<whole_numbers, C, B, A>();
  }
};
struct ForgetsLastLine : EmulatedTiles {
  template <int T> static void load(const void* from, std::size_t stride) {
    EmulatedTiles::load<T>(from, stride);
    if (T == 6) std::memset(state().of[T].bytes[15], 0, 64);
  }
};
struct NeverConfigures : EmulatedTiles {
  static void configure(const Configuration&) {}
};

double rounded(double x) { return static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(x)))); }

void check(std::int64_t m, std::int64_t n, std::int64_t k) {
  test::check_product<float>(product<EmulatedTiles>, rounded, m, n, k);
}

/// The fault of a use of registers after a configuration.
template <class Use> std::string fault(const Configuration& c, Use&& use) {
  try {
    EmulatedTiles::configure(c);
    use();
  } catch (const TileFault& f) {
    EmulatedTiles::release();
    return f.what();
  }
  EmulatedTiles::release();
  return "";
}

void multiply_once() { EmulatedTiles::add_products<false, 0, 4, 6>(); }

} // namespace

TEST_CASE("tiles refuse what the processor refuses") {
  const auto changed = [](auto&& change) {
    Configuration c = whole_tiles();
    change(c);
    return c;
  };
  CHECK(fault(whole_tiles(), multiply_once) == "");
  CHECK(fault(Configuration{}, multiply_once) == "#UD: tiles are not configured");
  CHECK(fault(changed([](Configuration& c) { c.palette = 2; }), multiply_once) == "#GP: palette");
  CHECK(fault(changed([](Configuration& c) { c.reserved[13] = 1; }), multiply_once) == "#GP: reserved bytes");
  CHECK(fault(changed([](Configuration& c) { c.rows[2] = 17; }), multiply_once) == "#GP: rows");
  CHECK(fault(changed([](Configuration& c) { c.rows[8] = 1; }), multiply_once) == "#GP: rows");
  CHECK(fault(changed([](Configuration& c) { c.row_bytes[2] = 68; }), multiply_once) == "#GP: bytes of a row");
  CHECK(fault(changed([](Configuration& c) { c.row_bytes[2] = 0; }), multiply_once) == "#GP: rows without bytes");
  CHECK(fault(changed([](Configuration& c) { c.rows[0] = 15; }), multiply_once) == "#UD: rows of the sums");
  CHECK(fault(changed([](Configuration& c) { c.rows[6] = 15; }), multiply_once) == "#UD: terms");
  CHECK(fault(changed([](Configuration& c) { c.row_bytes[6] = 60; }), multiply_once) == "#UD: columns of the sums");
  CHECK(fault(changed([](Configuration& c) { c.row_bytes[4] = 62; }), multiply_once) == "#UD: odd bytes");
  CHECK(fault(changed([](Configuration& c) { c.rows[6] = 0, c.row_bytes[6] = 0; }), multiply_once) ==
        "#UD: the register has no shape");
  CHECK(fault(whole_tiles(), [] {
          EmulatedTiles::release();
          EmulatedTiles::zero<0>();
        }) == "#UD: tiles are not configured");
}

TEST_CASE("a load fills what its shape leaves out with zeros") {
  Configuration c = whole_tiles();
  c.rows[3] = 2;
  c.row_bytes[3] = 4;
  const std::uint32_t words[] = {7, 8, 9};
  EmulatedTiles::configure(c);
  std::memset(&EmulatedTiles::state().of[3], 0xFF, sizeof(EmulatedTiles::Register));
  EmulatedTiles::load<3>(words, 8);
  const auto* found = reinterpret_cast<const std::uint32_t*>(EmulatedTiles::state().of[3].bytes);
  CHECK(found[0] == 7);
  CHECK(found[1] == 0);
  CHECK(found[16] == 9);
  CHECK(found[32] == 0);
  EmulatedTiles::release();
}

TEST_CASE("TDPBF16PS adds even and odd terms apart, and takes subnormal numbers for zeros") {
  EmulatedTiles::configure(whole_tiles());
  auto& state = EmulatedTiles::state();
  const auto set = [&](int t, int row, int i, float x) {
    const auto bits = BFloat16(x).bits;
    std::memcpy(state.of[t].bytes[row] + 2 * i, &bits, 2);
  };
  const auto sum = [&] {
    float x = 0;
    std::memcpy(&x, state.of[0].bytes[0], 4);
    return x;
  };
  for (int i = 0; i < 4; ++i) set(4, 0, i, 1.0F); // left: terms of row 0
  set(6, 0, 0, 0x1p24F), set(6, 0, 1, 1.0F);      // right: pairs of column 0
  set(6, 1, 0, -0x1p24F), set(6, 1, 1, 1.0F);
  multiply_once();
  CHECK(sum() == 2.0F); // in pairs, one after another, 2^24 + 1 would lose the 1
  EmulatedTiles::zero<0>();
  EmulatedTiles::zero<6>();
  state.of[6].bytes[0][0] = 1; // the least subnormal number
  set(4, 0, 0, 0x1p127F);
  multiply_once();
  CHECK(sum() == 0.0F);
  EmulatedTiles::release();
}

TEST_CASE("products in emulated tiles are those of rounded operands on both sides of every cut") {
  for (const std::int64_t m : {1, 15, 16, 17, 31, 32, 33})
    for (const std::int64_t n : {1, 15, 16, 17, 32, 33, 49})
      for (const std::int64_t k : {1, 2, 31, 32, 33, 64}) check(m, n, k);
  check(37, 300, 515);
  check(600, 37, 1030);
  check(70, 530, 512);
}

TEST_CASE("wrong instructions are seen") {
  const test::GemmCase<float> given{40, 50, 70, false, true, 0};
  const auto right = [&](test::Multiply<float> multiply) {
    return test::is_right(given, given.by(multiply, 1.0F, 0.0F, false), 1.0, 0.0, rounded);
  };
  CHECK(right(product<EmulatedTiles>));
  CHECK_FALSE(right(product<SwapsOperands>));
  CHECK_FALSE(right(product<ForgetsLastLine>));
  CHECK_THROWS_AS(right(product<NeverConfigures>), TileFault);
  CHECK_FALSE(test::is_right(given, given.by(gemm::product<float>, 1.0F, 0.0F, false), 1.0, 0.0, rounded));
}

TEST_CASE("registers are released when a product is done") {
  const test::GemmCase<float> given{40, 50, 70, false, true, 0};
  given.by(product<EmulatedTiles>, 1.0F, 0.0F, false);
  CHECK_FALSE(EmulatedTiles::state().configured);
}

TEST_CASE("an element's bits in tiles depend on its row, its column and k alone") {
  test::check_bits_of_parts(product<EmulatedTiles>, 601);
}

TEST_CASE("what is added to a product in tiles has the bits of a C that held it before") {
  for (const std::int64_t m : {30, 100}) test::check_addends(product<EmulatedTiles>, m);
}

TEST_CASE("blocks of a product in tiles are announced after they are whole") {
  for (const std::int64_t m : {30, 100}) test::check_announcements(product<EmulatedTiles>, m);
}

TEST_CASE("where every sum is exact, tiles, AVX512-BF16 and f32 give the same bits") {
  const std::int64_t m = 45, n = 61, k = 300;
  const Tensor a = random_integers({m, k}, {5, 1}, -8, 9).to(DType::f32),
               b = random_integers({k, n}, {5, 2}, -8, 9).to(DType::f32), expected = matmul(a, b);
  const auto by = [&](test::Multiply<float> multiply) {
    Tensor c = Tensor::empty({m, n});
    multiply(
        {m, n, k, 1.0F, {a.data<float>(), k, false}, {b.data<float>(), n, false}, 0.0F, c.mutable_data<float>(), n},
        test::nothing);
    return c;
  };
  CHECK(same_bits(by(product<EmulatedTiles>), expected));
  if (gemm::bf16_available()) CHECK(same_bits(by(gemm::product_bf16), expected));
}

TEST_CASE("packing rounds to bf16 as the storage type does, but for subnormal numbers") {
  const auto same = [](float x) { return gemm::tiles::bf16_bits(x) == BFloat16(x).bits; };
  for (const float x : {0.0F, -0.0F, 1.0F, 1.00390625F, 1.01171875F, 3.4e38F, -3.4e38F, 1e-37F, INFINITY, -INFINITY})
    CHECK(same(x));
  for (std::uint32_t bits = 0x00800000U; bits < 0x7F800000U; bits += 104729U) CHECK(same(std::bit_cast<float>(bits)));
  CHECK((gemm::tiles::bf16_bits(NAN) & 0x7FC0U) == 0x7FC0U);
  CHECK(gemm::tiles::bf16_bits(-1e-40F) == 0x8000U);
  CHECK(gemm::tiles::bf16_bits(std::bit_cast<float>(0x007FFFFFU)) == 0U); // would round up to the least normal one
}

TEST_CASE("tiles are used where processor and system have all of it") {
  using gemm::amx::Numbers;
  const gemm::amx::Processor whole{1U << 27, 1U << 24 | 1U << 22 | 1U << 25, 0x600E7};
  const auto lacks = [&](auto&& change, Numbers numbers) {
    gemm::amx::Processor p = whole;
    change(p);
    return gemm::amx::lacks(p, numbers);
  };
  for (const Numbers numbers : {Numbers::bf16, Numbers::int8}) {
    CHECK(gemm::amx::lacks(whole, numbers) == "");
    CHECK(lacks([](auto& p) { p.leaf7_edx &= ~(1U << 24); }, numbers) == "this processor has no AMX");
    CHECK(lacks([](auto& p) { p.xcr0 = 0xE7; }, numbers) == "the system does not save AMX's registers");
    CHECK(lacks([](auto& p) { p.xcr0 &= ~(std::uint64_t{1} << 18); }, numbers) != "");
    CHECK(lacks([](auto& p) { p.leaf1_ecx = 0; }, numbers) != "");
  }
  const auto no_bf16 = [](auto& p) { p.leaf7_edx &= ~(1U << 22); };
  CHECK(lacks(no_bf16, Numbers::bf16) == "this processor's AMX has no bf16");
  CHECK(lacks(no_bf16, Numbers::int8) == "");
  CHECK(lacks([](auto& p) { p.leaf7_edx &= ~(1U << 25); }, Numbers::int8) == "this processor's AMX has no int8");
  // This process: AMX is used where nothing is said against it.
  const std::string& refusal = gemm::amx::refusal(Numbers::bf16);
  CHECK(refusal.empty() == (gemm::bf16_instruction() == "tdpbf16ps (AMX)"));
  if (refusal.empty()) {
    const test::GemmCase<float> given{70, 90, 130, false, true, 0};
    CHECK(same_bits(given.by(gemm::product_bf16, 1.0F, 0.0F, false),
                    given.by(product<EmulatedTiles>, 1.0F, 0.0F, false))); // the emulation is the processor's
  } else {
    MESSAGE("AMX is not used here: " << refusal);
  }
}
