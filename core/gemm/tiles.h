#pragma once
// Describes the tile registers of Intel's AMX, as a processor and its emulation (tests/support/emulated_tiles.h) have
// them.

#include <cstddef>
#include <cstdint>

namespace eg::gemm::tiles {

inline constexpr int registers = 8;
inline constexpr int most_rows = 16;
inline constexpr int most_bytes = 64; ///< of a row

/// What LDTILECFG reads: rows and bytes of a row of each register.
struct alignas(64) Configuration {
  std::uint8_t palette = 0;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(Configuration) == 64 && offsetof(Configuration, row_bytes) == 16 &&
              offsetof(Configuration, rows) == 48);

/// All eight registers of 16 rows of 64 bytes. Kernels fill missing rows and terms with zeros, so that one
/// configuration serves every product.
constexpr Configuration whole_tiles() {
  Configuration c;
  c.palette = 1;
  for (int i = 0; i < registers; ++i) {
    c.row_bytes[i] = most_bytes;
    c.rows[i] = most_rows;
  }
  return c;
}

/// 64 bytes of a packed operand, one row of a register: of the left operand 32 (bf16) or 64 (int8) terms of one of its
/// rows; of the right one two or four terms of 16 columns.
struct alignas(64) Line {
  std::uint32_t words[16];
};

/// Registers that are configured while it lives, on the thread that made it. Tiles is a policy: static members
/// configure(Configuration), release(), zero<T>(), load<T>(address, stride), store<T>(address, stride),
/// add_products_bf16<C, A, B>() and add_products_int8<C, A, B>() of registers by number, each one instruction.
template <class Tiles> class Configured {
public:
  Configured() {
    static constexpr Configuration whole = whole_tiles();
    Tiles::configure(whole);
  }
  ~Configured() { Tiles::release(); }
  Configured(const Configured&) = delete;
  Configured& operator=(const Configured&) = delete;
};

} // namespace eg::gemm::tiles
