#include "apps/report/tex_reader.h"

#include "core/base/error.h"

#include <cctype>
#include <fmt/format.h>

namespace eg::permute::report {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

} // namespace

std::string shown(const Token& token) {
  if (token.kind == TokenKind::end) return "the end";
  return token.kind == TokenKind::command ? "\\" + token.text : token.text;
}

void TexReader::fail(const std::string& what) const { throw ValueError(fmt::format("tex: {} in \"{}\"", what, tex_)); }

Token TexReader::next() {
  while (at_ < tex_.size() && std::isspace(static_cast<unsigned char>(tex_[at_])) != 0) ++at_;
  if (at_ == tex_.size()) return {};
  if (tex_[at_] != '\\') return {TokenKind::character, std::string(1, tex_[at_++])};
  if (++at_ == tex_.size()) fail("a backslash stands at the end");
  const std::size_t start = at_;
  while (at_ < tex_.size() && std::isalpha(static_cast<unsigned char>(tex_[at_])) != 0) ++at_;
  if (at_ == start) ++at_; // a command of one sign: \, or \{
  return {TokenKind::command, std::string(tex_.substr(start, at_ - start))};
}

Token TexReader::peek() {
  const std::size_t before = at_;
  Token token = next();
  at_ = before;
  return token;
}

std::string TexReader::digits() {
  const auto digit_at = [&](std::size_t i) { return i < tex_.size() && is_digit(tex_[i]); };
  std::string out;
  while (digit_at(at_) || (at_ < tex_.size() && tex_[at_] == '.' && digit_at(at_ + 1))) out += tex_[at_++];
  return out;
}

std::string TexReader::words(const std::string& of) {
  const Token open = next();
  if (open.kind != TokenKind::character || open.is('}')) fail(fmt::format("\\{} has no argument", of));
  if (!open.is('{')) return open.text;
  const std::size_t close = tex_.find_first_of("{}\\$", at_);
  if (close == std::string_view::npos || tex_[close] != '}') fail(fmt::format("\\{} takes plain words", of));
  std::string text(tex_.substr(at_, close - at_));
  at_ = close + 1;
  return text;
}

} // namespace eg::permute::report
