#pragma once
// Decodes and checks UTF-8 (RFC 3629: no surrogates, no overlong forms, nothing beyond U+10FFFF).

#include <cstddef>
#include <string>
#include <string_view>

namespace eg {

/// Bytes of the character at the front of `text`; 0 when there is none, because the text is empty, cut or not UTF-8.
std::size_t utf8_size(std::string_view text);

/// Place of the first byte that belongs to no character; std::string_view::npos when all of `text` is UTF-8.
std::size_t find_invalid_utf8(std::string_view text);

/// All of `text` is UTF-8.
inline bool is_utf8(std::string_view text) { return find_invalid_utf8(text) == std::string_view::npos; }

/// The character at `at`, which moves behind it. The text must be UTF-8.
char32_t next_utf8(std::string_view text, std::size_t& at);
/// Start of the character that ends before `at`, which is not 0. The text must be UTF-8.
std::size_t previous_utf8(std::string_view text, std::size_t at);

/// Appends the character `c`, a code point that is not a surrogate.
void append_utf8(std::string& out, char32_t c);

/// Bytes that arrive in pieces, given on as whole characters: what is held back is at most the front of one character.
/// Bytes that cannot belong to any character become U+FFFD, one for each longest front of a character (the Unicode
/// Standard, "U+FFFD Substitution of Maximal Subparts"). The pieces that come out, joined, do not depend on the pieces
/// that went in.
class Utf8Stream {
public:
  /// Takes `bytes`; returns the characters that are complete.
  std::string push(std::string_view bytes);
  /// Ends the text: what is held back becomes U+FFFD. The stream is as new afterwards.
  std::string finish();

private:
  std::string held_;
};

} // namespace eg
