#pragma once
// Reads the bits and Huffman codes of deflate data (RFC 1951). Used by inflate.h only.

#include "data/bytes.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

namespace eg::data {

/// A canonical Huffman code whose first bit is the lowest, with the codes of up to 10 bits in a table.
class DeflateCode {
public:
  static constexpr int fast_bits = 10, longest = 15;

  /// Makes the code from the lengths of its symbols, 0 for those that do not occur. False unless every sequence of bits
  /// means something; a code of at most one symbol of one bit passes where `single` is true.
  bool build(std::span<const std::uint8_t> lengths, bool single);

  /// A symbol and its length in bits; length 0: no symbol has that code.
  struct Symbol {
    int value = 0, length = 0;
  };
  /// The symbol whose code the lowest of `bits` are.
  Symbol find(std::uint64_t bits) const {
    const unsigned entry = fast_[bits & ((1U << fast_bits) - 1)];
    if (entry != 0) return {static_cast<int>(entry >> 4), static_cast<int>(entry & 15)};
    return find_long(bits);
  }

private:
  void add(std::size_t symbol, std::uint8_t length, std::int32_t code);
  Symbol find_long(std::uint64_t bits) const;

  std::array<std::uint16_t, 1 << fast_bits> fast_{};       // symbol << 4 | length; 0: longer or none
  std::array<std::uint16_t, 288> symbols_{};               // in the order of their codes
  std::array<std::int32_t, longest + 1> end_{}, offset_{}; // by length: first code beyond it; place less code
};

/// Packed bytes as bits, from pieces that come one after another.
class DeflateBits {
public:
  /// Gives the next piece, an empty one at the end. A piece stays as it is until the next is asked for.
  using Source = std::function<ByteView()>;
  explicit DeflateBits(Source more) : more_(std::move(more)) {}

  /// Afterwards 56 bits are there, or all that are left.
  void fill() {
    if (piece_.size() - at_ < 8) return fill_slowly();
    std::uint64_t next = 0;
    for (unsigned i = 0; i < 8; ++i) next |= std::uint64_t{piece_[at_ + i]} << (8 * i);
    bits_ |= next << held_;
    at_ += static_cast<std::size_t>((63 - held_) >> 3);
    held_ |= 56;
  }
  /// The next bits, the first one lowest, without taking them; zeros stand where the data have ended.
  std::uint64_t peek() const { return bits_; }
  /// False when fewer are left; to be called with at most what fill() has made sure of.
  bool skip(int count) {
    if (count > held_) return false;
    bits_ >>= count;
    held_ -= count;
    return true;
  }
  /// Drops what is left of a byte that was begun.
  void align() { skip(held_ & 7); }
  /// Copies up to `bytes` whole bytes, after align(); returns how many there were.
  std::size_t copy(std::uint8_t* to, std::size_t bytes);
  /// Bytes of which every bit was taken.
  std::uint64_t taken() const { return before_ + at_ - static_cast<std::uint64_t>(held_ >> 3); }

private:
  void fill_slowly();
  bool next_piece();

  Source more_;
  ByteView piece_;
  std::size_t at_ = 0;
  std::uint64_t before_ = 0; // bytes of the pieces before this one
  std::uint64_t bits_ = 0;
  int held_ = 0;
};

} // namespace eg::data
