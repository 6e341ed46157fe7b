#pragma once
// Splits a TeX formula into tokens.

#include <cstdint>
#include <string>
#include <string_view>

namespace eg::permute::report {

enum class TokenKind : std::uint8_t { character, command, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text = {}; ///< a command without its backslash

  bool is(char c) const { return kind == TokenKind::character && text[0] == c; }
  bool is_command(std::string_view name) const { return kind == TokenKind::command && text == name; }
};

/// How an error shows it.
std::string shown(const Token& token);

class TexReader {
public:
  explicit TexReader(std::string_view tex) : tex_(tex) {}

  /// The next word; spaces between words mean nothing. Throws ValueError for a backslash at the end.
  Token next();
  Token peek();
  bool next_is(char c) { return peek().is(c); }
  /// The digits and decimal point that follow directly.
  std::string digits();
  /// The characters of a group or one character, unchanged, for \mathrm and \text. Throws ValueError for commands
  /// inside.
  std::string words(const std::string& of);
  /// Throws ValueError: what is wrong, in which formula.
  [[noreturn]] void fail(const std::string& what) const;

private:
  std::string_view tex_;
  std::size_t at_ = 0;
};

} // namespace eg::permute::report
