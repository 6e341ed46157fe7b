#include "core/ops/sort/order.h"

#include <algorithm>
#include <array>

namespace eg::sorting {
namespace {

/// Shorter lines are sorted by comparison: counting has a price for each byte of the key.
constexpr std::size_t counting_pays = 32;

using Counts = std::array<std::size_t, 256>;

std::size_t byte_of(std::uint64_t key, int byte) { return key >> (8 * byte) & 0xFF; }

/// How often each value of each byte of the keys occurs.
template <class Item> std::vector<Counts> counts_of(const std::vector<Item>& items, int key_bytes) {
  std::vector<Counts> counts(static_cast<std::size_t>(key_bytes), Counts{});
  for (const Item& item : items)
    for (int b = 0; b < key_bytes; ++b) ++counts[static_cast<std::size_t>(b)][byte_of(item.key(), b)];
  return counts;
}

/// Moves items to where those of their byte begin, in their present order: equals keep it.
template <class Item>
void distribute(const std::vector<Item>& from, std::vector<Item>& to, const Counts& counts, int byte) {
  Counts next;
  std::size_t begin = 0;
  for (std::size_t value = 0; value < counts.size(); ++value) {
    next[value] = begin;
    begin += counts[value];
  }
  for (const Item& item : from) to[next[byte_of(item.key(), byte)]++] = item;
}

} // namespace

template <class Item> void sort_items(std::vector<Item>& items, std::vector<Item>& spare, int key_bytes) {
  const std::size_t n = items.size();
  if (n < counting_pays * static_cast<std::size_t>(key_bytes)) return std::sort(items.begin(), items.end());
  spare.resize(n);
  const std::vector<Counts> counts = counts_of(items, key_bytes);
  for (int b = 0; b < key_bytes; ++b) {
    const Counts& own = counts[static_cast<std::size_t>(b)];
    if (own[byte_of(items[0].key(), b)] == n) continue; // all have the same
    distribute(items, spare, own, b);
    items.swap(spare);
  }
}

template void sort_items(std::vector<ShortItem>&, std::vector<ShortItem>&, int);
template void sort_items(std::vector<LongItem>&, std::vector<LongItem>&, int);

} // namespace eg::sorting
