#include "core/cuda/emulator/traffic.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace eg::emulator {

namespace {

constexpr std::uintptr_t sector_bytes = 32;
constexpr std::size_t banks = 32;

} // namespace

void Traffic::add(const void* code, unsigned thread, std::uintptr_t address, std::size_t size, bool shared) {
  const auto at = reinterpret_cast<std::uintptr_t>(code);
  items_.push_back({at, visits_[at * 1024 + thread]++, thread / 32, address, static_cast<std::uint32_t>(size), shared});
}

void Traffic::forget() {
  items_.clear();
  visits_.clear();
}

void Traffic::count(Counts& counts) {
  std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
    return std::tie(a.code, a.warp, a.visit, a.address) < std::tie(b.code, b.warp, b.visit, b.address);
  });
  for (const Item *begin = items_.data(), *last = begin + items_.size(); begin != last;) {
    const Item* end = begin;
    while (end != last && end->code == begin->code && end->warp == begin->warp && end->visit == begin->visit) ++end;
    (begin->shared ? count_passes : count_sectors)(begin, end, counts);
    begin = end;
  }
  forget();
}

void Traffic::count_sectors(const Item* begin, const Item* end, Counts& counts) {
  std::uintptr_t next = 0, covered = 0, distinct = 0;
  for (const Item* item = begin; item != end; ++item) {
    const std::uintptr_t from = item->address, to = from + item->size;
    const std::uintptr_t first = std::max(next, from / sector_bytes), last = (to - 1) / sector_bytes;
    if (last >= first) counts.sectors += last - first + 1;
    next = std::max(next, last + 1);
    if (to > covered) distinct += to - std::max(covered, from);
    covered = std::max(covered, to);
  }
  counts.ideal_sectors += (distinct + sector_bytes - 1) / sector_bytes;
}

/// Different words of one bank take turns; one word is given to all lanes that ask for it.
void Traffic::count_passes(const Item* begin, const Item* end, Counts& counts) {
  std::array<std::size_t, banks> words{};
  std::uintptr_t next = 0, distinct = 0;
  for (const Item* item = begin; item != end; ++item) {
    const std::uintptr_t last = (item->address + item->size - 1) / 4;
    for (std::uintptr_t word = std::max(next, item->address / 4); word <= last; ++word, ++distinct)
      ++words[word % banks];
    next = std::max(next, last + 1);
  }
  counts.bank_passes += *std::max_element(words.begin(), words.end());
  counts.ideal_bank_passes += (distinct + banks - 1) / banks;
}

} // namespace eg::emulator
