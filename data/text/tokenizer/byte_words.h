#pragma once
// Splits text into words before byte-level merging, with the common regular expressions written out by hand, and maps
// bytes to the letters that spell them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace eg::data::tok {

/// The expressions that are known; byte_words.cpp spells them.
enum class WordPattern : std::uint8_t {
  none,   ///< all of the text is one word
  gpt2,   ///< GPT-2
  llama3, ///< Llama 3 and cl100k: contractions in any case, digits by threes, line ends apart
  qwen2,  ///< Qwen 2: the same with single digits
};

/// The pattern that is spelt so, if it is a known one.
std::optional<WordPattern> known_pattern(std::string_view expression);

/// End of the word that begins at `at` < text.size(). Time is proportional to the word's size.
std::size_t word_end(std::string_view text, std::size_t at, WordPattern pattern);

/// GPT-2's letters for bytes: printable bytes of Latin-1 are themselves, the others U+0100 and on.
class ByteLetters {
public:
  static const ByteLetters& tables();
  /// The letter of a byte, in UTF-8.
  std::string_view letter(std::uint8_t byte) const { return letters_[byte]; }
  /// Replaces `out` by the bytes that `letters` spell; false when some character of it represents no byte.
  bool bytes(std::string_view letters, std::string& out) const;

private:
  ByteLetters();
  std::array<std::string, 256> letters_;
  std::array<std::int16_t, 0x144> bytes_; // by code point; -1: none
};

} // namespace eg::data::tok
