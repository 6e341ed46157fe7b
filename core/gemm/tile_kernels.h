#pragma once
// Packs operands for tile registers and multiplies them, over a policy (tiles.h): the processor's registers or their
// emulation. Functions are always inlined, so that what calls them decides for which processor they are compiled.

#include "core/gemm/gemm_run.h"
#include "core/gemm/tiles.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#define EG_TILE_INLINE __attribute__((always_inline)) inline

namespace eg::gemm::tiles {

/// Rows and columns of C that four registers hold. Two more are rows of the left operand, two columns of the right one.
inline constexpr int side = 2 * most_rows;

/// x rounded to bf16 as VCVTNE2PS2BF16 rounds: to nearest, ties to even, subnormal numbers to zero, NaN quiet.
EG_TILE_INLINE std::uint32_t bf16_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const std::uint32_t nearest = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
  const std::uint32_t finite = magnitude < 0x00800000U ? bits >> 16 & 0x8000U : nearest;
  return magnitude > 0x7F800000U ? bits >> 16 | 0x40U : finite;
}

/// The first `count` of 32 numbers as pairs; zeros behind them.
EG_TILE_INLINE void round_along(const float* x, std::int64_t count, std::uint32_t* pairs) {
  if (count >= 32) {
    for (int i = 0; i < 16; ++i) pairs[i] = bf16_bits(x[2 * i]) | bf16_bits(x[2 * i + 1]) << 16;
    return;
  }
  for (int i = 0; i < 16; ++i) {
    const std::uint32_t low = 2 * i < count ? bf16_bits(x[2 * i]) : 0;
    const std::uint32_t high = 2 * i + 1 < count ? bf16_bits(x[2 * i + 1]) : 0;
    pairs[i] = low | high << 16;
  }
}

/// Pairs of the first `count` of 16 numbers and of those `ld` behind, of which `terms` (0 to 2) are there.
EG_TILE_INLINE void round_across(const float* x, std::int64_t ld, std::int64_t terms, std::int64_t count,
                                 std::uint32_t* pairs) {
  if (terms >= 2 && count >= 16) {
    for (int i = 0; i < 16; ++i) pairs[i] = bf16_bits(x[i]) | bf16_bits(x[ld + i]) << 16;
    return;
  }
  for (int i = 0; i < 16; ++i) {
    const std::uint32_t low = terms > 0 && i < count ? bf16_bits(x[i]) : 0;
    const std::uint32_t high = terms > 1 && i < count ? bf16_bits(x[ld + i]) : 0;
    pairs[i] = low | high << 16;
  }
}

/// Lines become columns.
EG_TILE_INLINE void transpose(const std::uint32_t (&from)[16][16], Line* to) {
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) to[i].words[j] = from[j][i];
}

/// Sixteen lines of a panel: of the left operand's rows where `left`, else of the right one's columns; they run along k
/// or across it. Of them `lines` are there, of 32 terms from x on `terms`.
template <bool left, bool along>
EG_TILE_INLINE void pack_tile(const float* x, std::int64_t ld, std::int64_t lines, std::int64_t terms, Line* to) {
  constexpr bool turned = left != along;
  alignas(64) std::uint32_t pairs[16][16];
  for (std::int64_t i = 0; i < 16; ++i) {
    std::uint32_t* const row = turned ? pairs[i] : to[i].words;
    if constexpr (along) {
      if (i < lines)
        round_along(x + i * ld, terms, row);
      else
        std::fill_n(row, 16, 0U);
    } else {
      const std::int64_t rest = std::clamp<std::int64_t>(terms - 2 * i, 0, 2);
      round_across(rest > 0 ? x + 2 * i * ld : x, ld, rest, lines, row);
    }
  }
  if constexpr (turned) transpose(pairs, to);
}

/// What gemm::Run asks for: panels of 32 or 16 lines, 32 terms a step.
template <bool along> EG_TILE_INLINE void pack_bf16(const float* x, std::int64_t ld, const Panels& panels, Line* out) {
  const std::int64_t steps = (panels.k + 31) / 32;
  for (std::int64_t from = 0; from < panels.lines; from += panels.width) {
    const std::int64_t width = panels.of(from);
    for (std::int64_t p = 0; p < steps; ++p)
      for (std::int64_t i = 0; i < width; i += most_rows) {
        const std::int64_t line = from + i, lines = std::clamp<std::int64_t>(panels.lines - line, 0, most_rows);
        const std::int64_t terms = lines > 0 ? std::min<std::int64_t>(panels.k - 32 * p, 32) : 0;
        const float* const corner = lines == 0 ? x : along ? x + line * ld + 32 * p : x + 32 * p * ld + line;
        Line* const to = out + from * steps + p * width + i;
        if (panels.left)
          pack_tile<true, along>(corner, ld, lines, terms, to);
        else
          pack_tile<false, along>(corner, ld, lines, terms, to);
      }
  }
}

/// sums [32][32] = the products of a panel of the left operand (32 lines a step) and one of the right (`width` lines a
/// step, 32 or 16); of the four parts those that `rows` and `columns` reach.
template <class Tiles, bool whole_numbers>
EG_TILE_INLINE void multiply(std::int64_t steps, const Line* left, const Line* right, std::int64_t width,
                             std::int64_t rows, std::int64_t columns, void* sums) {
  const bool low = rows > most_rows, wide = columns > most_rows;
  Tiles::template zero<0>();
  Tiles::template zero<1>();
  Tiles::template zero<2>();
  Tiles::template zero<3>();
  for (std::int64_t p = 0; p < steps; ++p, left += side, right += width) {
    Tiles::template load<4>(left, sizeof(Line));
    Tiles::template load<6>(right, sizeof(Line));
    Tiles::template add_products<whole_numbers, 0, 4, 6>();
    if (wide) {
      Tiles::template load<7>(right + most_rows, sizeof(Line));
      Tiles::template add_products<whole_numbers, 1, 4, 7>();
    }
    if (!low) continue;
    Tiles::template load<5>(left + most_rows, sizeof(Line));
    Tiles::template add_products<whole_numbers, 2, 5, 6>();
    if (wide) Tiles::template add_products<whole_numbers, 3, 5, 7>();
  }
  constexpr std::size_t pitch = side * sizeof(float);
  const auto to = static_cast<std::byte*>(sums);
  Tiles::template store<0>(to, pitch);
  if (wide) Tiles::template store<1>(to + pitch / 2, pitch);
  if (low) Tiles::template store<2>(to + most_rows * pitch, pitch);
  if (low && wide) Tiles::template store<3>(to + most_rows * pitch + pitch / 2, pitch);
}

/// c = alpha sum + (bias + addend) + beta c for `columns` elements; bias and addend may be null.
EG_TILE_INLINE void finish_row(const float* sums, float* c, std::int64_t columns, float alpha, float beta,
                               const float* bias, const float* addend) {
  for (std::int64_t j = 0; j < columns; ++j) {
    float y = alpha * sums[j];
    if (bias != nullptr && addend != nullptr)
      y += bias[j] + addend[j];
    else if (bias != nullptr)
      y += bias[j];
    else if (addend != nullptr)
      y += addend[j];
    c[j] = beta != 0.0F ? y + beta * c[j] : y;
  }
}

/// One tile of C in f32, as gemm::Run asks for it.
template <class Tiles>
EG_TILE_INLINE void multiply_bf16(std::int64_t rows, std::int64_t steps, const Line* left, const Line* right,
                                  const Target<float>& target, std::int64_t columns) {
  alignas(64) float sums[side * side];
  multiply<Tiles, false>(steps, left, right, columns > most_rows ? side : most_rows, rows, columns, sums);
  for (std::int64_t i = 0; i < rows; ++i)
    finish_row(sums + i * side, target.c + i * target.ld, columns, target.alpha, target.beta, target.plus.bias,
               target.plus.addend == nullptr ? nullptr : target.plus.addend + i * target.plus.ld);
}

/// What gemm::Run asks of every kernel for tiles; a kernel adds pack_along, pack_across and multiply, which name the
/// processor.
template <class Tiles> struct Bf16KernelBase {
  using Scalar = float;
  using Packed = Line;
  using Task = Configured<Tiles>;
  static constexpr int terms = 32;
  static constexpr int rows = side;
  static constexpr bool reads_left_in_place = false;
  static constexpr bool packs_left_across = true;
  static constexpr bool panel_by_panel = false;
  static constexpr std::int64_t lanes() { return most_rows; }
  static constexpr std::int64_t width() { return side; }
};

} // namespace eg::gemm::tiles
