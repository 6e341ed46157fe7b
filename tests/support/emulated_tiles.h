#pragma once
// Emulates the tile registers of Intel's AMX (Intel's manual, volume 2, LDTILECFG to TDPBSSD) for the kernels of
// core/gemm/tile_kernels.h.

#include "core/gemm/tiles.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace eg::test {

/// What the processor would raise: "#UD: ..." or "#GP: ...".
class TileFault : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// The policy of core/gemm/tiles.h. State belongs to a thread, as the registers do.
struct EmulatedTiles {
  struct Register {
    std::uint8_t bytes[gemm::tiles::most_rows][gemm::tiles::most_bytes];
  };
  struct State {
    bool configured = false;
    gemm::tiles::Configuration shapes;
    Register of[gemm::tiles::registers] = {};
  };
  static State& state() {
    thread_local State one;
    return one;
  }

  /// LDTILECFG. Palette 0 releases. A start row is not emulated: no kernel of ours is interrupted within a load.
  static void configure(const gemm::tiles::Configuration& c) {
    if (c.palette > 1) throw TileFault("#GP: palette");
    for (const std::uint8_t byte : c.reserved)
      if (byte != 0) throw TileFault("#GP: reserved bytes");
    if (c.start_row != 0) throw TileFault("#GP: start row");
    for (int i = 0; i < 16; ++i) {
      const bool exists = i < gemm::tiles::registers;
      if (c.rows[i] > (exists ? gemm::tiles::most_rows : 0)) throw TileFault("#GP: rows");
      if (c.row_bytes[i] > (exists ? gemm::tiles::most_bytes : 0)) throw TileFault("#GP: bytes of a row");
      if ((c.rows[i] == 0) != (c.row_bytes[i] == 0)) throw TileFault("#GP: rows without bytes");
    }
    state() = {};
    if (c.palette == 0) return;
    state().configured = true;
    state().shapes = c;
  }
  static void release() { state() = {}; }

  template <int T> static void zero() { at<T>() = {}; }
  template <int T> static void load(const void* from, std::size_t stride) {
    Register loaded = {}; // bytes and rows beyond the shape become zero
    at<T>();
    for (int i = 0; i < rows(T); ++i)
      std::memcpy(loaded.bytes[i], static_cast<const std::uint8_t*>(from) + static_cast<std::size_t>(i) * stride,
                  row_bytes(T));
    at<T>() = loaded;
  }
  template <int T> static void store(void* to, std::size_t stride) {
    const Register& stored = at<T>();
    for (int i = 0; i < rows(T); ++i)
      std::memcpy(static_cast<std::uint8_t*>(to) + static_cast<std::size_t>(i) * stride, stored.bytes[i], row_bytes(T));
  }
  /// TDPBSSD or TDPBF16PS.
  template <bool whole_numbers, int C, int A, int B> static void add_products() {
    static_assert(C != A && C != B && A != B, "#UD: one register twice");
    Register &sums = at<C>(), result = {};
    const Register &left = at<A>(), &right = at<B>();
    if (row_bytes(C) % 4 != 0 || row_bytes(A) % 4 != 0 || row_bytes(B) % 4 != 0) throw TileFault("#UD: odd bytes");
    if (rows(C) != rows(A)) throw TileFault("#UD: rows of the sums");
    if (row_bytes(A) / 4 != static_cast<std::size_t>(rows(B))) throw TileFault("#UD: terms");
    if (row_bytes(C) != row_bytes(B)) throw TileFault("#UD: columns of the sums");
    const auto terms_of_left = numbers<whole_numbers>(left, rows(A), row_bytes(A));
    const auto terms_of_right = numbers<whole_numbers>(right, rows(B), row_bytes(B));
    for (int m = 0; m < rows(C); ++m)
      add(terms_of_left.of[m], terms_of_right, row_bytes(A) / 4, row_bytes(C) / 4, sums.bytes[m], result.bytes[m]);
    sums = result;
  }

  static int rows(int t) { return state().shapes.rows[t]; }
  static std::size_t row_bytes(int t) { return state().shapes.row_bytes[t]; }

private:
  template <int T> static Register& at() {
    static_assert(T >= 0 && T < gemm::tiles::registers);
    if (!state().configured) throw TileFault("#UD: tiles are not configured");
    if (rows(T) == 0) throw TileFault("#UD: the register has no shape");
    return state().of[T];
  }
  template <class T> static T element(const std::uint8_t* row, std::size_t i) {
    T x;
    std::memcpy(&x, row + i * sizeof(T), sizeof x);
    return x;
  }
  /// Subnormal numbers count as zeros, as operands and as results.
  static float flushed(float x) {
    return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
  }
  /// What a register holds, in row-major order: bf16 widened, or whole numbers of 8 bits.
  template <bool whole_numbers> struct Numbers {
    using Number = std::conditional_t<whole_numbers, std::int32_t, float>;
    static constexpr std::size_t of_row = gemm::tiles::most_bytes / (whole_numbers ? 1 : 2);
    Number of[gemm::tiles::most_rows][of_row];
  };
  template <bool whole_numbers> static Numbers<whole_numbers> numbers(const Register& r, int rows, std::size_t bytes) {
    Numbers<whole_numbers> n;
    for (int i = 0; i < rows; ++i) {
      auto* to = n.of[i];
      for (std::size_t j = 0; j < bytes / (whole_numbers ? 1 : 2); ++j)
        if constexpr (whole_numbers)
          to[j] = element<std::int8_t>(r.bytes[i], j);
        else
          to[j] = flushed(std::bit_cast<float>(std::uint32_t{element<std::uint16_t>(r.bytes[i], j)} << 16));
    }
    return n;
  }

  static void add(const float* left, const Numbers<false>& right, std::size_t pairs, std::size_t columns,
                  const std::uint8_t* before, std::uint8_t* after) {
    for (std::size_t n = 0; n < columns; ++n) {
      float even = 0, odd = 0;
      for (std::size_t k = 0; k < pairs; ++k) {
        const float* const pair = right.of[k] + 2 * n;
        even = flushed(std::fma(left[2 * k], pair[0], even));
        odd = flushed(std::fma(left[2 * k + 1], pair[1], odd));
      }
      const float sum = flushed(flushed(element<float>(before, n)) + flushed(even + odd));
      std::memcpy(after + n * sizeof sum, &sum, sizeof sum);
    }
  }
  static void add(const std::int32_t* left, const Numbers<true>& right, std::size_t quads, std::size_t columns,
                  const std::uint8_t* before, std::uint8_t* after) {
    for (std::size_t n = 0; n < columns; ++n) {
      auto sum = element<std::uint32_t>(before, n); // modulo 2^32
      for (std::size_t k = 0; k < quads; ++k)
        for (std::size_t i = 0; i < 4; ++i) sum += static_cast<std::uint32_t>(left[4 * k + i] * right.of[k][4 * n + i]);
      std::memcpy(after + n * sizeof sum, &sum, sizeof sum);
    }
  }
};

} // namespace eg::test
