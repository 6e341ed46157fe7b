#include "apps/report/tex.h"

#include "apps/report/parts.h"
#include "apps/report/tex_reader.h"
#include "apps/report/tex_symbols.h"

#include <cctype>
#include <fmt/format.h>

#include <utility>
#include <vector>

namespace eg::permute::report {
namespace {

constexpr int deepest_group = 64; ///< groups within groups

/// One element, and whether its scripts are below and above it.
struct Node {
  std::string xml;
  bool limits = false;
};

std::string element(std::string_view tag, std::string_view content) {
  return fmt::format("<{0}>{1}</{0}>", tag, content);
}

std::string space(std::string_view width) { return fmt::format(R"(<mspace width="{}"/>)", width); }

/// A name in roman letters: one letter needs an attribute for it.
std::string upright(const std::string& name) {
  return fmt::format("<mi{}>{}</mi>", name.size() == 1 ? R"( mathvariant="normal")" : "", escape(name));
}

/// Parentheses keep the size of a line, as in TeX.
std::string fence(std::string_view text, std::string_view size = {}) {
  if (size.empty()) return fmt::format(R"(<mo stretchy="false">{}</mo>)", text);
  return fmt::format(R"(<mo stretchy="true" minsize="{0}" maxsize="{0}">{1}</mo>)", size, text);
}

/// Height of what \bigl, \Bigl, ... put before a delimiter; empty for any other command.
std::string_view big_size(std::string_view command) {
  if (!command.empty() && (command.back() == 'l' || command.back() == 'r' || command.back() == 'm'))
    command.remove_suffix(1);
  if (command == "big") return "1.2em";
  if (command == "Big") return "1.8em";
  if (command == "bigg") return "2.4em";
  return command == "Bigg" ? "3em" : "";
}

std::string_view accent_of(std::string_view command) {
  constexpr std::pair<std::string_view, std::string_view> accents[] = {
      {"hat", "ˆ"},   {"widehat", "ˆ"}, {"bar", "¯"},       {"overline", "¯"},
      {"tilde", "˜"}, {"vec", "→"},     {"widetilde", "˜"}, {"dot", "˙"}};
  for (const auto& [name, sign] : accents)
    if (name == command) return sign;
  return {};
}

/// Delimiters around a matrix environment, two strings that may be empty; null for any other environment.
const std::pair<std::string_view, std::string_view>* matrix_fences(std::string_view name) {
  static constexpr std::pair<std::string_view, std::pair<std::string_view, std::string_view>> all[] = {
      {"matrix", {"", ""}}, {"pmatrix", {"(", ")"}}, {"bmatrix", {"[", "]"}}, {"cases", {"{", ""}}};
  for (const auto& [known, fences] : all)
    if (known == name) return &fences;
  return nullptr;
}

class Parser : TexReader {
public:
  using TexReader::TexReader;

  std::string formula() {
    std::string row = run();
    if (peek().kind != TokenKind::end) fail(fmt::format("'{}' closes nothing", shown(peek())));
    return row;
  }

private:
  static bool ends_run(const Token& token) {
    return token.kind == TokenKind::end || token.is('}') || token.is('&') || token.is_command("right") ||
           token.is_command("end") || token.is_command("\\");
  }

  /// Atoms with their scripts up to whatever closes them.
  std::string run() {
    std::string out;
    while (!ends_run(peek())) out += scripted();
    return out;
  }

  std::string scripted() {
    if (next_is('_') || next_is('^') || next_is('\'')) fail(fmt::format("'{}' has no base", peek().text));
    const Node base = atom(next(), false);
    std::string sub, sup;
    for (bool raised = false; next_is('_') || next_is('^') || next_is('\'');) {
      const Token sign = next();
      if (sign.is('_') ? !sub.empty() : raised) fail(fmt::format("'{}' is given twice", sign.text));
      raised = raised || sign.is('^');
      if (sign.is('_'))
        sub = argument("a subscript");
      else
        sup += sign.is('^') ? argument("a superscript") : "<mo>′</mo>";
    }
    if (!sub.empty()) sub = element("mrow", sub);
    if (!sup.empty()) sup = element("mrow", sup);
    if (sub.empty() && sup.empty()) return base.xml;
    const bool both = !sub.empty() && !sup.empty();
    const char* tag = base.limits ? (both          ? "munderover"
                                     : sub.empty() ? "mover"
                                                   : "munder")
                                  : (both          ? "msubsup"
                                     : sub.empty() ? "msup"
                                                   : "msub");
    return element(tag, base.xml + sub + sup);
  }

  /// A group in braces, or one atom.
  std::string argument(const std::string& of) {
    const Token token = next();
    if (token.kind == TokenKind::end || ends_run(token)) fail(fmt::format("{} has no argument", of));
    return atom(token, true).xml;
  }

  /// `single`: a number is one digit, as TeX takes arguments.
  Node atom(const Token& token, bool single) {
    if (++depth_ > deepest_group) fail("groups are nested too deeply");
    Node node = token.kind == TokenKind::command ? command(token.text)
                : token.is('{')                  ? Node{group()}
                                                 : Node{sign(token, single)};
    --depth_;
    return node;
  }

  std::string sign(const Token& token, bool single) {
    const char c = token.text[0];
    if (std::isdigit(static_cast<unsigned char>(c)) != 0)
      return element("mn", single ? token.text : token.text + digits());
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) return element("mi", token.text);
    switch (c) {
    case '(':
    case ')':
    case '[':
    case ']':
    case '|':
      return fence(token.text);
    case '-':
      return element("mo", "−");
    case '*':
      return element("mo", "∗");
    case '~':
      return space("0.25em");
    case '/': // between its sides without space, as an ordinary sign
      return R"(<mo lspace="0" rspace="0">/</mo>)";
    case '+':
    case '=':
    case '<':
    case '>':
    case ',':
    case ';':
    case ':':
    case '.':
    case '!':
    case '?':
      return element("mo", escape(token.text));
    default:
      fail(fmt::format("'{}' is no sign of a formula", printable(c)));
    }
  }

  static std::string printable(char c) {
    return static_cast<unsigned char>(c) < 0x80 ? std::string(1, c)
                                                : fmt::format("byte {:#x}", static_cast<unsigned char>(c));
  }

  std::string group() {
    std::string content = run();
    if (!next_is('}')) fail(fmt::format("a group is not closed before {}", shown(peek())));
    next();
    return element("mrow", content);
  }

  Node command(const std::string& name) {
    if (const Symbol* symbol = symbol_of(name)) return of_symbol(*symbol);
    if (const std::string_view size = big_size(name); !size.empty()) return {fence(delimiter(name), size)};
    if (const std::string_view accent = accent_of(name); !accent.empty())
      return {fmt::format(R"(<mover accent="true">{}<mo stretchy="{}">{}</mo></mover>)",
                          element("mrow", argument("\\" + name)), accent == "¯" ? "true" : "false", accent)};
    return {of_structure(name)};
  }

  static Node of_symbol(const Symbol& symbol) {
    switch (symbol.kind) {
    case SymbolClass::letter:
      return {element("mi", symbol.text)};
    case SymbolClass::function:
      return {fmt::format(R"(<mi mathvariant="normal">{}</mi>)", symbol.text)};
    case SymbolClass::fence:
      return {fence(symbol.text)};
    case SymbolClass::big:
      return {element("mo", symbol.text), true};
    case SymbolClass::space:
      return {space(symbol.text)};
    default:
      return {element("mo", symbol.text)};
    }
  }

  std::string of_structure(const std::string& name) {
    if (name == "frac" || name == "tfrac" || name == "dfrac") return fraction(name);
    if (name == "sqrt") return root();
    if (name == "mathrm" || name == "operatorname" || name == "mathsf") return upright(words(name));
    if (name == "text" || name == "textrm") return element("mtext", spaced(words(name)));
    if (name == "mathbf" || name == "boldsymbol") return lettered(words(name), Alphabet::bold);
    if (name == "mathbb") return lettered(words(name), Alphabet::blackboard);
    if (name == "mathcal") return lettered(words(name), Alphabet::calligraphic);
    if (name == "not") return negated();
    if (name == "left") return stretched();
    if (name == "begin") return matrix();
    fail(fmt::format("unknown command \\{}", name));
  }

  std::string fraction(const std::string& name) {
    const std::string above = argument("\\" + name), below = argument("\\" + name);
    const char* style = name == "tfrac" ? R"( displaystyle="false")" : name == "dfrac" ? R"( displaystyle="true")" : "";
    return fmt::format("<mfrac{}>{}{}</mfrac>", style, element("mrow", above), element("mrow", below));
  }

  std::string root() {
    if (!next_is('[')) return element("msqrt", argument("\\sqrt"));
    next();
    std::string degree;
    while (!next_is(']')) {
      if (ends_run(peek())) fail("the degree of \\sqrt is not closed");
      degree += scripted();
    }
    next();
    return element("mroot", element("mrow", argument("\\sqrt")) + element("mrow", degree));
  }

  /// Spaces at the ends of a text would be dropped.
  static std::string spaced(const std::string& text) {
    std::string out;
    for (const char c : text) out += c == ' ' ? "\u00a0" : escape(std::string(1, c));
    return out;
  }

  static std::string lettered(const std::string& text, Alphabet alphabet) {
    std::string out;
    for (const char c : text) out += in_alphabet(c, alphabet);
    return fmt::format(R"(<mi mathvariant="normal">{}</mi>)", out);
  }

  std::string negated() {
    const std::string sign = shown(next());
    constexpr std::pair<std::string_view, std::string_view> known[] = {
        {"=", "≠"}, {"\\Rightarrow", "⇏"}, {"\\in", "∉"}, {"\\equiv", "≢"}, {"\\subset", "⊄"}};
    for (const auto& [of, text] : known)
      if (of == sign) return element("mo", text);
    fail(fmt::format("\\not is not known before {}", sign));
  }

  std::string delimiter(const std::string& of) {
    const Token token = next();
    if (token.kind == TokenKind::character && std::string_view("()[]|/.").find(token.text) != std::string_view::npos)
      return token.text;
    const Symbol* symbol = token.kind == TokenKind::command ? symbol_of(token.text) : nullptr;
    if (!symbol || symbol->kind != SymbolClass::fence)
      fail(fmt::format("\\{} needs a delimiter, not {}", of, shown(token)));
    return std::string(symbol->text);
  }

  static std::string stretching(const std::string& text) {
    return text == "." ? "" : fmt::format(R"(<mo stretchy="true" fence="true">{}</mo>)", text);
  }

  std::string stretched() {
    const std::string open = delimiter("left"), content = run();
    if (const Token token = next(); !token.is_command("right"))
      fail(fmt::format("\\left is not closed before {}", shown(token)));
    const std::string close = delimiter("right");
    return element("mrow", stretching(open) + content + stretching(close));
  }

  std::string matrix() {
    const std::string name = words("begin");
    const auto* fences = matrix_fences(name);
    if (!fences) fail(fmt::format("unknown environment {}", name));
    std::string rows, cells;
    for (;;) {
      cells += element("mtd", run());
      const Token token = next();
      if (token.is('&')) continue;
      rows += element("mtr", cells);
      cells.clear();
      if (token.is_command("\\")) continue;
      if (!token.is_command("end")) fail(fmt::format("\\begin{{{}}} is not closed before {}", name, shown(token)));
      break;
    }
    if (const std::string closed = words("end"); closed != name)
      fail(fmt::format("\\begin{{{}}} is closed by \\end{{{}}}", name, closed));
    const auto side = [](std::string_view text) { return stretching(text.empty() ? "." : std::string(text)); };
    return element("mrow", side(fences->first) + element("mtable", rows) + side(fences->second));
  }

  int depth_ = 0;
};

} // namespace

std::string mathml(std::string_view tex, MathStyle style) {
  return fmt::format(R"(<math display="{}" alttext="{}"><mrow>{}</mrow></math>)",
                     style == MathStyle::display ? "block" : "inline", escape(std::string(tex)), Parser(tex).formula());
}

} // namespace eg::permute::report
