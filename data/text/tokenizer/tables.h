#pragma once
// Defines hash tables that are built once and looked up often: open addressing with linear probing, at most half full.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace eg::data::tok {

/// The value of what is missing.
inline constexpr std::uint32_t none = 0xFFFFFFFF;

/// Pairs of numbers and what belongs to them. The pair (none, none) cannot be a key.
class PairTable {
public:
  struct Entry {
    std::uint32_t first, second; // the key
    std::uint32_t value = none;
    std::uint32_t rank = none;
  };

  /// Adds a pair, or replaces what it had. Returns whether it is new.
  bool put(std::uint32_t first, std::uint32_t second, std::uint32_t value, std::uint32_t rank = 0);
  /// What belongs to the pair; null when there is nothing.
  const Entry* find(std::uint32_t first, std::uint32_t second) const;

private:
  std::size_t slot_of(std::uint32_t first, std::uint32_t second) const;
  void grow();

  std::vector<Entry> slots_;
  std::size_t count_ = 0;
};

/// Texts and their numbers. The texts are kept here, in the order in which they came.
class TextTable {
public:
  /// Adds a text. Returns false, and changes nothing, when it exists already.
  bool put(std::string_view text, std::uint32_t value);
  /// Its number, or `none`.
  std::uint32_t find(std::string_view text) const;
  std::size_t size() const { return texts_.size(); }

private:
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t index = none; // of texts_ and values_
  };
  std::size_t slot_of(std::string_view text, std::uint32_t hash) const;
  void grow();

  std::vector<Slot> slots_;
  std::vector<std::string> texts_;
  std::vector<std::uint32_t> values_;
};

/// Byte strings, for the longest one that a text begins with.
class ByteTrie {
public:
  static constexpr std::uint32_t root = 0;

  /// Adds a string, or gives it another value. Values are below `none`.
  void put(std::string_view bytes, std::uint32_t value);
  /// The node that `bytes` lead to from the root; `none` when no string begins so.
  std::uint32_t node(std::string_view bytes) const;

  struct Match {
    std::size_t size = 0; ///< bytes from the beginning of the text; 0: no match
    std::uint32_t value = none;
  };
  /// The longest string (without what leads to `from`) that `text` begins with. Empty strings do not match.
  Match longest(std::string_view text, std::uint32_t from = root) const;
  bool empty() const { return values_.size() == 1; }

private:
  PairTable edges_;                         // (node, byte) to node
  std::vector<std::uint32_t> values_{none}; // by node
};

} // namespace eg::data::tok
