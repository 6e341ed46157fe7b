#include "data/text/tokenizer/unicode.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace eg::data::tok {
namespace {

#include "data/text/tokenizer/unicode_decompositions.inc"
#include "data/text/tokenizer/unicode_ranges.inc"

constexpr char32_t code_points = 0x110000;

// Hangul syllables are composed of jamo by arithmetic (the Unicode Standard, section 3.12).
constexpr char32_t syllables = 0xAC00, syllable_count = 11172;
constexpr char32_t leads = 0x1100, lead_count = 19;
constexpr char32_t vowels = 0x1161, vowel_count = 21;
constexpr char32_t tails = 0x11A7, tail_count = 28; // the first one means none

bool in(char32_t c, char32_t first, char32_t count) { return c >= first && c - first < count; }

std::uint64_t pair_of(char32_t first, char32_t second) { return std::uint64_t{first} << 32U | second; }

/// The row of `width` numbers whose first two, a range, hold `c`; null when there is none.
template <class T> const T* row_of(std::span<const T> table, std::size_t width, char32_t c) {
  std::size_t low = 0;
  std::size_t high = table.size() / width;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const T* row = table.data() + middle * width;
    if (c < static_cast<char32_t>(row[0]))
      high = middle;
    else if (c > static_cast<char32_t>(row[1]))
      low = middle + 1;
    else
      return row;
  }
  return nullptr;
}

} // namespace

const Unicode& Unicode::tables() {
  static const Unicode unicode;
  return unicode;
}

Unicode::Unicode() : sets_(code_points), traits_(code_points) {
  mark(letter_ranges, letter);
  mark(number_ranges, number);
  mark(space_ranges, space);
  mark(word_ranges, word);
  mark(removed_ranges, removed);
  mark(punctuation_ranges, punctuation);
  mark(accent_ranges, accent);
  mark(cjk_ranges, cjk);
  for (std::size_t i = 0; i < std::size(class_ranges); i += 3)
    for (char32_t c = class_ranges[i]; c <= class_ranges[i + 1]; ++c) traits_[c] |= moves;
  for (std::size_t i = 0; i < std::size(lower_runs); i += 4)
    for (std::int32_t c = lower_runs[i]; c <= lower_runs[i + 1]; c += lower_runs[i + 2])
      traits_[static_cast<std::size_t>(c)] |= lowers;
  index_decompositions();
  index_compositions();
}

void Unicode::mark(std::span<const char32_t> ranges, std::uint8_t set) {
  for (std::size_t i = 0; i < ranges.size(); i += 2)
    for (char32_t c = ranges[i]; c <= ranges[i + 1]; ++c) sets_[c] |= set;
}

void Unicode::index_decompositions() {
  for (std::size_t i = 0; i < std::size(decompositions); i += 2 + decompositions[i + 1]) {
    const char32_t c = decompositions[i];
    parts_.emplace(c, static_cast<std::uint32_t>(i + 1));
    traits_[c] |= decomposes;
    if (decompositions[i + 1] == 1) traits_[c] |= recomposes; // never put together again
  }
  for (std::size_t i = 0; i < std::size(not_recomposed_ranges); i += 2)
    for (char32_t c = not_recomposed_ranges[i]; c <= not_recomposed_ranges[i + 1]; ++c) traits_[c] |= recomposes;
  for (char32_t c = syllables; c < syllables + syllable_count; ++c) traits_[c] |= decomposes;
}

void Unicode::index_compositions() {
  // The first of a pair is itself what the parts before the last are composed to, so short ones come first.
  std::vector<std::uint32_t> order;
  for (const auto& [c, place] : parts_)
    if ((traits_[c] & recomposes) == 0) order.push_back(place);
  std::sort(order.begin(), order.end(), [](std::uint32_t a, std::uint32_t b) {
    return std::pair(decompositions[a], a) < std::pair(decompositions[b], b);
  });
  for (const std::uint32_t place : order) {
    const std::uint32_t count = decompositions[place];
    char32_t first = decompositions[place + 1];
    for (std::uint32_t i = 2; i < count; ++i) first = compose(first, decompositions[place + i]);
    const char32_t second = decompositions[place + count];
    composed_.emplace(pair_of(first, second), decompositions[place - 1]);
    traits_[second] |= recomposes;
  }
  for (char32_t c = vowels; c < vowels + vowel_count; ++c) traits_[c] |= recomposes;
  for (char32_t c = tails + 1; c < tails + tail_count; ++c) traits_[c] |= recomposes;
}

std::uint8_t Unicode::combining_class(char32_t c) const {
  if ((traits_[c] & moves) == 0) return 0;
  return static_cast<std::uint8_t>(row_of<char32_t>(class_ranges, 3, c)[2]);
}

void Unicode::decompose(char32_t c, std::vector<char32_t>& parts) const {
  parts.clear();
  if ((traits_[c] & decomposes) == 0) return;
  if (in(c, syllables, syllable_count)) {
    const char32_t index = c - syllables;
    parts = {leads + index / (vowel_count * tail_count), vowels + index / tail_count % vowel_count};
    if (index % tail_count != 0) parts.push_back(tails + index % tail_count);
    return;
  }
  const char32_t* count = decompositions + parts_.at(c);
  parts.assign(count + 1, count + 1 + *count);
}

char32_t Unicode::compose(char32_t first, char32_t second) const {
  if (in(first, leads, lead_count) && in(second, vowels, vowel_count))
    return syllables + ((first - leads) * vowel_count + (second - vowels)) * tail_count;
  if (in(first, syllables, syllable_count) && (first - syllables) % tail_count == 0 &&
      in(second, tails + 1, tail_count - 1))
    return first + (second - tails);
  if ((traits_[second] & recomposes) == 0) return 0;
  const auto found = composed_.find(pair_of(first, second));
  return found == composed_.end() ? 0 : found->second;
}

char32_t Unicode::lower(char32_t c) const {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
  if ((traits_[c] & lowers) == 0) return c == 0x130 ? U'i' : c;
  const std::int32_t* row = row_of<std::int32_t>(lower_runs, 4, c);
  return static_cast<char32_t>(static_cast<std::int32_t>(c) + row[3]);
}

} // namespace eg::data::tok
