#pragma once
// Normalises text, and maps each byte of the result to its source.

#include "data/text/tokenizer/unicode.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace eg::data::tok {

/// [begin, end) in bytes.
struct ByteSpan {
  std::uint32_t begin = 0, end = 0;
};

/// A text and, for each of its bytes, the characters of the original that it comes from.
struct Normalized {
  std::string text;
  std::vector<ByteSpan> origin;

  void clear() {
    text.clear();
    origin.clear();
  }
  void append(char32_t c, ByteSpan from);
};

/// A stretch of text between added tokens. Where nothing was changed `origin` is null and `text` is part of the
/// original.
struct Stretch {
  std::string_view text;
  const ByteSpan* origin = nullptr;
  std::size_t begin = 0; ///< place of the stretch in the original; what `origin` gives is counted from there

  /// Whole characters of the original behind bytes [from, to) of the text, from < to.
  ByteSpan original(std::size_t from, std::size_t to) const;
};

/// BERT's normalisation, normal form C, or none.
struct Normalizer {
  enum class Kind : std::uint8_t { none, bert, nfc };
  Kind kind = Kind::none;
  bool clean_text = true;    ///< BERT: remove control characters, make white space blanks
  bool space_cjk = true;     ///< BERT: ideographs become words
  bool strip_accents = true; ///< BERT: decompose, remove nonspacing marks
  bool lower_case = true;    ///< BERT

  /// Writes the normal form of `text` to `out`. False, with `out` untouched, when it is the text itself. The text is
  /// UTF-8 of less than 2^32 bytes.
  bool apply(std::string_view text, Normalized& out) const;
};

/// Bytes at the front of `text`, about `wanted` or more, behind which it can be cut: what precedes the cut (a
/// letter) and behind it (a blank) are normalised and split into words without looking at each other.
std::size_t cut_after(std::string_view text, std::size_t wanted);

} // namespace eg::data::tok
