#pragma once
// Classifies and maps characters for tokenizers. The tables are those of Hugging Face's `tokenizers`, whose parts
// follow different versions of Unicode (docs/tokenizers.md); scripts/make_unicode_tables.py makes them.

#include "core/base/utf8.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace eg::data::tok {

/// Sets that a character can belong to.
enum CharacterSet : std::uint8_t {
  letter = 1U << 0U,      ///< \p{L}
  number = 1U << 1U,      ///< \p{N}
  space = 1U << 2U,       ///< White_Space
  word = 1U << 3U,        ///< \w
  removed = 1U << 4U,     ///< what BERT's cleaning removes
  punctuation = 1U << 5U, ///< what BERT's words are split at
  accent = 1U << 6U,      ///< nonspacing marks, of characters that decomposition leaves as they are
  cjk = 1U << 7U,         ///< what BERT puts spaces around
};

class Unicode {
public:
  /// The tables, made at the first use.
  static const Unicode& tables();

  /// The sets that `c` (below 0x110000, as everywhere here) belongs to.
  std::uint8_t sets(char32_t c) const { return sets_[c]; }
  bool is(char32_t c, std::uint8_t sets) const { return (sets_[c] & sets) != 0; }

  /// True when decomposition leaves `c` as it is and marks may not move over it.
  bool is_plain(char32_t c) const { return (traits_[c] & (decomposes | moves)) == 0; }
  /// True when a text of such characters is in normal form C.
  bool is_composed(char32_t c) const { return (traits_[c] & (moves | recomposes)) == 0; }

  /// Canonical combining class; 0: a starter.
  std::uint8_t combining_class(char32_t c) const;
  /// Full canonical decomposition into `parts`; empty when `c` has none.
  void decompose(char32_t c, std::vector<char32_t>& parts) const;
  /// The character that `first` and `second` are composed to; 0 when there is none.
  char32_t compose(char32_t first, char32_t second) const;
  /// Lower case of `c`: one character, but two for U+0130, whose second one, U+0307, is not given here.
  char32_t lower(char32_t c) const;

private:
  enum Trait : std::uint8_t { decomposes = 1, moves = 2, recomposes = 4, lowers = 8 };

  Unicode();
  void mark(std::span<const char32_t> ranges, std::uint8_t set);
  void index_decompositions();
  void index_compositions();

  std::vector<std::uint8_t> sets_;
  std::vector<std::uint8_t> traits_;
  std::unordered_map<char32_t, std::uint32_t> parts_;    // place of the number of parts in the table
  std::unordered_map<std::uint64_t, char32_t> composed_; // of first << 32 | second
};

} // namespace eg::data::tok
