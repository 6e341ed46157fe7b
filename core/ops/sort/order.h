#pragma once
// Maps values to whole numbers in the order of sort, argsort and topk, and gathers lines along one axis. A NaN is
// larger than everything and equal to another NaN, -0 equals 0, equals keep their order.

#include "core/ops/reduce/groups.h"

#include <bit>
#include <cmath>
#include <compare>
#include <limits>
#include <type_traits>
#include <vector>

namespace eg::sorting {

/// Whole numbers as wide as T.
template <class T> using KeyOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// A whole number that is smaller where `value` comes earlier, equal where it is equal.
template <class T> KeyOf<T> key_of(T value, bool descending) {
  using Key = KeyOf<T>;
  constexpr Key sign = Key{1} << (8 * sizeof(Key) - 1);
  const auto bits = std::bit_cast<Key>(value + T(0)); // -0 becomes 0
  const Key order = (bits & sign) != 0 ? static_cast<Key>(~bits) : static_cast<Key>(bits | sign);
  const Key key = std::isnan(value) ? std::numeric_limits<Key>::max() : order;
  return descending ? static_cast<Key>(~key) : key;
}

/// An element and its place in one word: compares at once.
struct ShortItem {
  std::uint64_t word;
  static ShortItem of(std::uint32_t key, std::int64_t place) {
    return {std::uint64_t{key} << 32 | static_cast<std::uint64_t>(place)};
  }
  std::uint64_t key() const { return word >> 32; }
  std::int64_t place() const { return static_cast<std::int64_t>(word & 0xFFFFFFFF); }
  auto operator<=>(const ShortItem&) const = default;
};

/// The same for keys of 64 bits, or more places than 32 bits count.
struct LongItem {
  std::uint64_t own_key;
  std::int64_t own_place;
  static LongItem of(std::uint64_t key, std::int64_t place) { return {key, place}; }
  std::uint64_t key() const { return own_key; }
  std::int64_t place() const { return own_place; }
  auto operator<=>(const LongItem&) const = default;
};

/// Sorts the items of a line. `spare` is scratch memory; on return `items` holds the result.
template <class Item> void sort_items(std::vector<Item>& items, std::vector<Item>& spare, int key_bytes);
extern template void sort_items(std::vector<ShortItem>&, std::vector<ShortItem>&, int);
extern template void sort_items(std::vector<LongItem>&, std::vector<LongItem>&, int);

/// f(line, its first element in the packed x, its items, scratch memory for sort_items) for every line along the axis,
/// on all threads. The elements of a line are `split.inner` apart.
template <class Item, class T, class F>
void for_each_line_of(const T* values, const AxisSplit& split, bool descending, const F& f) {
  const std::int64_t grain = parallel::grain_for_bytes(split.extent * static_cast<std::int64_t>(sizeof(Item)));
  parallel::for_each(split.outer * split.inner, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Item> items(static_cast<std::size_t>(split.extent)), spare;
    for (std::int64_t l = begin; l < end; ++l) {
      const T* first = values + l / split.inner * split.extent * split.inner + l % split.inner;
      for (std::int64_t e = 0; e < split.extent; ++e)
        items[static_cast<std::size_t>(e)] = Item::of(key_of(first[e * split.inner], descending), e);
      f(l, first, items, spare);
    }
  });
}

template <class T, class F> void for_each_line(const Tensor& x, const AxisSplit& split, bool descending, const F& f) {
  if (x.numel() == 0) return;
  const Tensor data = packed(x);
  const bool is_short = sizeof(T) == 4 && split.extent <= std::int64_t{1} << 32;
  if constexpr (sizeof(T) == 4)
    if (is_short) return for_each_line_of<ShortItem>(data.data<T>(), split, descending, f);
  for_each_line_of<LongItem>(data.data<T>(), split, descending, f);
}

/// dx: the cotangent of each value at the place that it came from.
Gradients scattered_back(const VjpArgs& args);

/// Lines are independent of each other: every axis but the sorted one, for this many outputs. Along the axis itself
/// the indices change.
std::vector<Symmetry> line_symmetries(const Sample& sample, int outputs);

} // namespace eg::sorting
