#include "data/text/tokenizer/byte_words.h"

#include "core/base/utf8.h"
#include "data/text/tokenizer/unicode.h"

namespace eg::data::tok {
namespace {

constexpr std::string_view gpt2_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view llama3_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen2_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::uint8_t all_kinds = letter | number | space;

class Scanner {
public:
  explicit Scanner(std::string_view text) : text_(text) {}

  /// Which of letter, number and space the character at `at` is; 0: none of them. `at` moves behind it.
  std::uint8_t kind(std::size_t& at) const { return unicode_.sets(next_utf8(text_, at)) & all_kinds; }

  /// End of the characters from `at` on that are of this kind, `most` at most.
  std::size_t run(std::size_t at, std::uint8_t wanted, std::size_t most = static_cast<std::size_t>(-1)) const {
    for (; most > 0 && at < text_.size(); --most) {
      std::size_t next = at;
      if (kind(next) != wanted) break;
      at = next;
    }
    return at;
  }

  bool is_line_end(std::size_t at) const { return at < text_.size() && (text_[at] == '\r' || text_[at] == '\n'); }

  /// 's 't 're 've 'm 'll 'd: its end, or `at` when there is none. Without regard to case, U+017F is an s, too.
  std::size_t contraction(std::size_t at, bool any_case) const {
    if (text_[at] != '\'') return at;
    const auto letter_at = [&](std::size_t i) {
      const char c = i < text_.size() ? text_[i] : '\0';
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char first = letter_at(at + 1);
    const char second = letter_at(at + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if (((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l')) return at + 3;
    return any_case && text_.substr(at + 1).starts_with("\u017F") ? at + 3 : at;
  }

  /// \s+(?!\S)|\s+ : white space up to `end`, but the last character is left to the word behind it where there are
  /// others before it.
  std::size_t blanks(std::size_t at, std::size_t end) const {
    if (end == text_.size()) return end;
    const std::size_t last = previous_utf8(text_, end);
    return last > at ? last : end;
  }

private:
  std::string_view text_;
  const Unicode& unicode_ = Unicode::tables();
};

std::size_t gpt2_end(std::string_view text, std::size_t at) {
  const Scanner scan(text);
  if (const std::size_t end = scan.contraction(at, false); end > at) return end;
  // A blank belongs to the word behind it.
  std::size_t first = at;
  if (text[at] == ' ' && at + 1 < text.size()) ++first;
  std::size_t next = first;
  const std::uint8_t kind = scan.kind(next);
  if (kind != space) return scan.run(next, kind);
  return scan.blanks(at, scan.run(at, space));
}

std::size_t llama_end(std::string_view text, std::size_t at, std::size_t digits) {
  const Scanner scan(text);
  if (const std::size_t end = scan.contraction(at, true); end > at) return end;
  std::size_t next = at;
  const std::uint8_t kind = scan.kind(next);
  if (kind == letter) return scan.run(next, letter);
  if (kind == number) return scan.run(at, number, digits);
  // One character that is not a line end belongs to the letters behind it.
  if (!scan.is_line_end(at))
    if (const std::size_t end = scan.run(next, letter); end > next) return end;
  const std::size_t first = text[at] == ' ' ? at + 1 : at;
  if (std::size_t end = scan.run(first, 0); end > first) {
    while (scan.is_line_end(end)) ++end;
    return end;
  }
  // White space up to its last line end, if it has one.
  const std::size_t end = scan.run(at, space);
  for (std::size_t last = end; last > at; --last)
    if (scan.is_line_end(last - 1)) return last;
  return scan.blanks(at, end);
}

} // namespace

std::optional<WordPattern> known_pattern(std::string_view expression) {
  if (expression == gpt2_expression) return WordPattern::gpt2;
  if (expression == llama3_expression) return WordPattern::llama3;
  if (expression == qwen2_expression) return WordPattern::qwen2;
  return std::nullopt;
}

std::size_t word_end(std::string_view text, std::size_t at, WordPattern pattern) {
  switch (pattern) {
  case WordPattern::gpt2:
    return gpt2_end(text, at);
  case WordPattern::llama3:
    return llama_end(text, at, 3);
  case WordPattern::qwen2:
    return llama_end(text, at, 1);
  case WordPattern::none:
    break;
  }
  return text.size();
}

const ByteLetters& ByteLetters::tables() {
  static const ByteLetters letters;
  return letters;
}

ByteLetters::ByteLetters() {
  bytes_.fill(-1);
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const char32_t c = printable ? byte : next++;
    append_utf8(letters_[byte], c);
    bytes_[c] = static_cast<std::int16_t>(byte);
  }
}

bool ByteLetters::bytes(std::string_view letters, std::string& out) const {
  out.clear();
  for (std::size_t at = 0; at < letters.size();) {
    const char32_t c = next_utf8(letters, at);
    if (c >= bytes_.size() || bytes_[c] < 0) return false;
    out.push_back(static_cast<char>(static_cast<std::uint8_t>(bytes_[c])));
  }
  return true;
}

} // namespace eg::data::tok
