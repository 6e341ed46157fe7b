#include "apps/explore/expression.h"

#include "core/base/words.h"
#include "core/call.h"
#include "core/ops.h"
#include "core/registry.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

namespace eg::explore {

namespace {

constexpr int most_depth = 50;

bool callable(const OpDef& op) {
  return op.inputs.size() == 1 && !op.variadic && op.outputs.size() - op.auxiliary == 1 && !op.variadic_outputs &&
         has_gradient(op) && !is_backward(op) &&
         std::none_of(op.attributes.begin(), op.attributes.end(), [](const AttrSpec& a) { return a.required; });
}

class Parser {
public:
  Parser(std::string_view text, Variables& variables) : text_(text), variables_(variables) {}

  Tensor program() {
    Tensor last;
    while (skip_lines()) last = statement();
    if (!last.defined()) refuse("there is no expression");
    return last;
  }

private:
  [[noreturn]] void refuse(const std::string& why) const {
    const std::string_view before = text_.substr(0, at_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t begin = before.rfind('\n');
    throw ValueError(
        fmt::format("line {}, column {}: {}", line, at_ - (begin == std::string_view::npos ? 0 : begin + 1) + 1, why));
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_spaces() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\r') ++at_;
    if (peek() == '#')
      while (at_ < text_.size() && peek() != '\n') ++at_;
  }
  bool take(char c) {
    skip_spaces();
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  /// True when a statement follows.
  bool skip_lines() {
    for (skip_spaces(); peek() == '\n' || peek() == ';'; skip_spaces()) ++at_;
    return at_ < text_.size();
  }

  static bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  std::string name() {
    const std::size_t begin = at_;
    while (begins_name(peek()) || is_digit(peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  Tensor statement() {
    const std::size_t begin = at_;
    std::string target;
    if (begins_name(peek())) {
      target = name();
      if (!take('=')) {
        target.clear();
        at_ = begin;
      }
    }
    Tensor value = sum_of_terms();
    skip_spaces();
    if (at_ < text_.size() && peek() != '\n' && peek() != ';') refuse(fmt::format("'{}' is not expected here", peek()));
    if (!target.empty()) assign(target, value);
    return value;
  }

  void assign(const std::string& target, const Tensor& value) {
    for (auto& [other, x] : variables_)
      if (other == target) {
        x = value;
        return;
      }
    variables_.emplace_back(target, value);
  }

  Tensor sum_of_terms() {
    if (++depth_ > most_depth) refuse(fmt::format("parentheses are nested deeper than {}", most_depth));
    Tensor x = product();
    for (;;)
      if (take('+'))
        x = x + product();
      else if (take('-'))
        x = x - product();
      else
        break;
    --depth_;
    return x;
  }

  Tensor product() {
    Tensor x = factor();
    for (;;)
      if (take('*'))
        x = x * factor();
      else if (take('/'))
        x = x / factor();
      else if (take('@'))
        x = matmul(x, factor());
      else
        return x;
  }

  Tensor factor() {
    bool negative = false;
    while (take('-')) negative = !negative;
    const Tensor x = primary();
    return negative ? -x : x;
  }

  Tensor primary() {
    if (take('(')) return closed(sum_of_terms());
    if (is_digit(peek()) || peek() == '.') return number();
    if (!begins_name(peek())) refuse("a number, a name or '(' is missing here");
    const std::size_t begin = at_;
    const std::string word = name();
    if (take('(')) return called(word, begin);
    for (const auto& [other, x] : variables_)
      if (other == word) return x;
    at_ = begin;
    std::vector<std::string_view> known;
    for (const auto& [other, x] : variables_) known.push_back(other);
    refuse(fmt::format("there is no '{}'; there are {}", word, fmt::join(known, ", ")));
  }

  Tensor number() {
    // Digits, a point and an exponent; libc++ 13 has no std::from_chars for them.
    const std::size_t begin = at_;
    while (is_digit(peek()) || peek() == '.') ++at_;
    if ((peek() == 'e' || peek() == 'E') && at_ > begin) {
      ++at_;
      if (peek() == '-' || peek() == '+') ++at_;
      while (is_digit(peek())) ++at_;
    }
    const std::string digits(text_.substr(begin, at_ - begin));
    char* end = nullptr;
    const double value = std::strtod(digits.c_str(), &end);
    if (end != digits.c_str() + digits.size()) {
      at_ = begin;
      refuse("this is not a number");
    }
    return Tensor::full({}, value, DType::f64);
  }

  Tensor closed(Tensor x) {
    if (!take(')')) refuse("')' is missing here");
    return x;
  }

  Tensor called(const std::string& word, std::size_t begin) {
    const std::vector<std::string> functions = program_functions();
    if (std::find(functions.begin(), functions.end(), word) == functions.end()) {
      at_ = begin;
      refuse(fmt::format("there is no function '{}'{}", word, did_you_mean(word, functions)));
    }
    const Tensor x = closed(sum_of_terms());
    return call(find_op(word), {x}).front();
  }

  std::string_view text_;
  Variables& variables_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

} // namespace

std::vector<std::string> program_functions() {
  std::vector<std::string> names;
  for (const OpDef* op : registry())
    if (callable(*op)) names.emplace_back(op->name);
  return names;
}

Tensor run_program(std::string_view text, Variables& variables) { return Parser(text, variables).program(); }

} // namespace eg::explore
