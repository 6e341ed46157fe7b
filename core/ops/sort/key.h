#pragma once
// Maps values to whole numbers in the order of sort, argsort and topk, and items of a key and a place.

#include "core/device/qualifiers.h"

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace eg::sorting {

/// Whole numbers as wide as T.
template <class T> using KeyOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// A whole number that is smaller where `value` comes earlier, equal where it is equal. A NaN is larger than everything
/// and equal to another NaN, -0 equals 0.
template <class T> EG_DEVICE_FUNCTION KeyOf<T> key_of(T value, bool descending) {
  using Key = KeyOf<T>;
  constexpr Key sign = Key{1} << (8 * sizeof(Key) - 1);
  Key key = 0;
  if constexpr (std::is_integral_v<T>) {
    key = static_cast<Key>(static_cast<std::int64_t>(value)) ^ sign;
  } else {
    const auto bits = std::bit_cast<Key>(value + T(0)); // -0 becomes 0
    const Key order = (bits & sign) != 0 ? static_cast<Key>(~bits) : static_cast<Key>(bits | sign);
    key = value != value ? static_cast<Key>(~Key{0}) : order;
  }
  return descending ? static_cast<Key>(~key) : key;
}

/// An element and its place in one word: compares at once.
struct ShortItem {
  std::uint64_t word;
  EG_DEVICE_FUNCTION static ShortItem of(std::uint64_t key, std::int64_t place) {
    return {key << 32 | static_cast<std::uint64_t>(place)};
  }
  /// Stands behind every other item.
  EG_DEVICE_FUNCTION static ShortItem last() { return {~std::uint64_t{0}}; }
  EG_DEVICE_FUNCTION std::uint64_t key() const { return word >> 32; }
  EG_DEVICE_FUNCTION std::int64_t place() const { return static_cast<std::int64_t>(word & 0xFFFFFFFF); }
  EG_DEVICE_FUNCTION bool before(const ShortItem& other) const { return word < other.word; }
  auto operator<=>(const ShortItem&) const = default;
};

/// The same for keys of 64 bits, or more places than 32 bits count.
struct LongItem {
  std::uint64_t own_key;
  std::int64_t own_place;
  EG_DEVICE_FUNCTION static LongItem of(std::uint64_t key, std::int64_t place) { return {key, place}; }
  EG_DEVICE_FUNCTION static LongItem last() { return {~std::uint64_t{0}, INT64_MAX}; }
  EG_DEVICE_FUNCTION std::uint64_t key() const { return own_key; }
  EG_DEVICE_FUNCTION std::int64_t place() const { return own_place; }
  EG_DEVICE_FUNCTION bool before(const LongItem& other) const {
    return own_key < other.own_key || (own_key == other.own_key && own_place < other.own_place);
  }
  auto operator<=>(const LongItem&) const = default;
};

/// Items of a device sort have 8 bytes where keys and places of a line fit 32 bits, else 16.
inline std::size_t item_bytes(std::size_t key_bytes, std::int64_t places) {
  return key_bytes == 4 && places < INT64_C(0xFFFFFFFF) ? sizeof(ShortItem) : sizeof(LongItem);
}

} // namespace eg::sorting
