#pragma once
// Decodes Huffman codes and the bits of entropy-coded data (ITU-T T.81), for the verification of JPEG files.

#include "core/base/bytes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace eg::data::jpeg {

/// A canonical Huffman code (T.81, annex C), with the codes of up to 9 bits in a table.
struct Huffman {
  static constexpr int fast_bits = 9;
  bool defined = false; ///< set by build()
  std::array<std::uint8_t, 256> symbols{};
  std::array<std::int32_t, 17> end{};               // first code of that length that is not used
  std::array<std::int32_t, 17> offset{};            // symbol index minus code
  std::array<std::uint16_t, 1 << fast_bits> fast{}; // length << 8 | symbol; 0: longer or none

  /// Makes the tables from the numbers of codes of lengths 1 to 16; `symbols` is filled before. False when the lengths
  /// are not those of a prefix code.
  bool build(ByteView counts) {
    std::int32_t code = 0;
    std::int32_t index = 0;
    fast.fill(0);
    for (int length = 1; length <= 16; ++length) {
      const auto l = static_cast<std::size_t>(length);
      offset[l] = index - code;
      for (int i = 0; i < counts[l - 1]; ++i, ++code, ++index)
        if (length <= fast_bits && code < (1 << length)) fill_fast(code, length, index);
      if (code > (1 << length)) return false;
      end[l] = code;
      code <<= 1;
    }
    return defined = true;
  }

private:
  void fill_fast(std::int32_t code, int length, std::int32_t index) {
    const int spare = fast_bits - length;
    const auto first = static_cast<std::size_t>(code) << spare;
    const auto entry = static_cast<std::uint16_t>(length << 8 | symbols[static_cast<std::size_t>(index)]);
    std::fill_n(fast.begin() + static_cast<std::ptrdiff_t>(first), std::size_t{1} << spare, entry);
  }
};

/// Bits of entropy-coded data, up to the next marker.
class BitReader {
public:
  BitReader(ByteView file, std::size_t at) : file_(file), at_(at) {}

  /// Next symbol, or -1 for a code that is not in the table or when the data end.
  int symbol(const Huffman& table) {
    fill();
    const std::uint16_t entry = table.fast[(bits_ >> (32 - Huffman::fast_bits)) & ((1U << Huffman::fast_bits) - 1)];
    if (entry != 0) return skip(entry >> 8) ? entry & 0xFF : -1;
    for (int length = Huffman::fast_bits + 1; length <= 16; ++length) {
      const auto l = static_cast<std::size_t>(length);
      const auto code = static_cast<std::int32_t>(bits_ >> (32 - length));
      if (code < table.end[l])
        return skip(length) ? table.symbols[static_cast<std::size_t>(code + table.offset[l]) & 0xFFU] : -1;
    }
    return -1;
  }
  /// False when the data end before.
  bool skip(int count) {
    if (count > held_) fill();
    if (count > held_) return false;
    bits_ = count < 32 ? bits_ << count : 0;
    held_ -= count;
    return true;
  }
  /// Position of the first byte of which no bit was used, after giving back what was read ahead.
  std::size_t align() {
    while (held_ >= 8) {
      held_ -= 8;
      at_ -= at_ >= 2 && file_[at_ - 1] == 0 && file_[at_ - 2] == 0xFF ? 2U : 1U;
    }
    held_ = 0;
    bits_ = 0;
    return at_;
  }
  /// Goes on at byte `at`, after align().
  void move_to(std::size_t at) { at_ = at; }

private:
  void fill() {
    while (held_ <= 24 && at_ < file_.size()) {
      const std::uint32_t byte = file_[at_];
      if (byte == 0xFF && (at_ + 1 >= file_.size() || file_[at_ + 1] != 0)) return;
      at_ += byte == 0xFF ? 2 : 1;
      bits_ |= byte << (24 - held_);
      held_ += 8;
    }
  }

  ByteView file_;
  std::size_t at_;
  std::uint32_t bits_ = 0; // the next bits, from the top
  int held_ = 0;
};

} // namespace eg::data::jpeg
