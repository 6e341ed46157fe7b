#include "support/markup.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <set>

namespace eg::test {
namespace {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == ':'; }

class Checker {
public:
  explicit Checker(const std::string& text) : text_(text) {}

  std::string fault() {
    if (text_.starts_with("<!doctype html>\n")) at_ = 16;
    while (fault_.empty() && at_ < text_.size()) {
      if (text_[at_] == '<')
        tag();
      else if (text_[at_] == '&')
        entity();
      else
        ++at_;
    }
    if (fault_.empty() && !open_.empty()) fail(fmt::format("<{}> is not closed", open_.back()));
    return fault_;
  }

private:
  void fail(const std::string& what) {
    fault_ = fmt::format("{} at byte {}: {}", what, at_, text_.substr(at_ > 40 ? at_ - 40 : 0, 120));
  }

  std::string name() {
    const std::size_t start = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }

  void entity() {
    for (const char* known : {"&amp;", "&lt;", "&gt;", "&quot;"})
      if (text_.compare(at_, std::string(known).size(), known) == 0) {
        at_ += std::string(known).size();
        return;
      }
    fail("a stray &");
  }

  void closing() {
    at_ += 2;
    const std::string closed = name();
    if (open_.empty() || open_.back() != closed) return fail(fmt::format("</{}> closes nothing", closed));
    open_.pop_back();
    if (at_ == text_.size() || text_[at_] != '>') return fail("a closing tag without >");
    ++at_;
  }

  void attribute(std::set<std::string>& seen) {
    const std::string key = name();
    if (key.empty()) return fail("no attribute where one must be");
    if (!seen.insert(key).second) return fail(fmt::format("{} is given twice", key));
    if (text_.compare(at_, 2, "=\"") != 0) return fail(fmt::format("{} has no quoted value", key));
    for (at_ += 2; at_ < text_.size() && text_[at_] != '"';) {
      if (text_[at_] == '<') return fail("< in an attribute");
      if (text_[at_] == '&')
        entity();
      else
        ++at_;
      if (!fault_.empty()) return;
    }
    if (at_ == text_.size()) return fail("an attribute that does not end");
    ++at_;
  }

  void tag() {
    if (text_.compare(at_, 2, "</") == 0) return closing();
    ++at_;
    const std::string opened = name();
    if (opened.empty()) return fail("a stray <");
    std::set<std::string> seen;
    while (fault_.empty() && at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
      attribute(seen);
    }
    if (!fault_.empty()) return;
    if (text_.compare(at_, 2, "/>") == 0) {
      at_ += 2;
      return;
    }
    if (at_ == text_.size() || text_[at_] != '>') return fail(fmt::format("<{}> without >", opened));
    ++at_;
    if (opened == "meta" || opened == "img" || opened == "br" || opened == "input") return;
    open_.push_back(opened);
    if (opened == "style") at_ = std::min(text_.find("</style>", at_), text_.size());
  }

  const std::string& text_;
  std::size_t at_ = 0;
  std::vector<std::string> open_;
  std::string fault_;
};

} // namespace

std::string fault_of_markup(const std::string& markup) { return Checker(markup).fault(); }

std::vector<std::string> elements(const std::string& markup, const std::string& name) {
  std::vector<std::string> found;
  const std::string close = "</" + name + ">";
  for (std::size_t at = markup.find("<" + name); at != std::string::npos; at = markup.find("<" + name, at)) {
    const std::size_t end = markup.find(close, at);
    if (end == std::string::npos || is_name(markup[at + 1 + name.size()])) {
      ++at;
      continue;
    }
    found.push_back(markup.substr(at, end + close.size() - at));
    at = end;
  }
  return found;
}

std::string without_tags(const std::string& markup) {
  std::string out;
  bool inside = false;
  for (const char c : markup) {
    if (c == '<') inside = true;
    if (!inside) out += c;
    if (c == '>') inside = false;
  }
  return out;
}

} // namespace eg::test
