#pragma once
// Computes cyclic redundancy checks of 32 bits, eight bytes a step ("slicing by 8").

#include "core/base/bytes.h"

#include <array>

namespace eg {

using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

/// `polynomial` with its bits reversed.
constexpr CrcTables crc_tables(std::uint32_t polynomial) {
  CrcTables tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1U) != 0 ? polynomial ^ (c >> 1) : c >> 1;
    tables[0][i] = c;
  }
  for (std::size_t t = 1; t < 8; ++t)
    for (std::size_t i = 0; i < 256; ++i) tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xFFU];
  return tables;
}

/// The check of `bytes`, continued from `crc`.
inline std::uint32_t crc_of(const CrcTables& tables, ByteView bytes, std::uint32_t crc) {
  std::uint32_t c = ~crc;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    const std::uint8_t* b = bytes.data() + i;
    c ^= static_cast<std::uint32_t>(b[0]) | static_cast<std::uint32_t>(b[1]) << 8 |
         static_cast<std::uint32_t>(b[2]) << 16 | static_cast<std::uint32_t>(b[3]) << 24;
    c = tables[7][c & 0xFFU] ^ tables[6][(c >> 8) & 0xFFU] ^ tables[5][(c >> 16) & 0xFFU] ^ tables[4][c >> 24] ^
        tables[3][b[4]] ^ tables[2][b[5]] ^ tables[1][b[6]] ^ tables[0][b[7]];
  }
  for (; i < bytes.size(); ++i) c = tables[0][(c ^ bytes[i]) & 0xFFU] ^ (c >> 8);
  return ~c;
}

} // namespace eg
