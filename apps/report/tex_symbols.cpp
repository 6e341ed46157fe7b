#include "apps/report/tex_symbols.h"

#include <array>
#include <utility>

namespace eg::permute::report {
namespace {

struct Table {
  using enum SymbolClass;
  static constexpr std::pair<std::string_view, Symbol> symbols[] = {
      {"alpha", {letter, "α"}},
      {"beta", {letter, "β"}},
      {"gamma", {letter, "γ"}},
      {"delta", {letter, "δ"}},
      {"epsilon", {letter, "ϵ"}},
      {"varepsilon", {letter, "ε"}},
      {"zeta", {letter, "ζ"}},
      {"eta", {letter, "η"}},
      {"theta", {letter, "θ"}},
      {"iota", {letter, "ι"}},
      {"kappa", {letter, "κ"}},
      {"lambda", {letter, "λ"}},
      {"mu", {letter, "μ"}},
      {"nu", {letter, "ν"}},
      {"xi", {letter, "ξ"}},
      {"pi", {letter, "π"}},
      {"rho", {letter, "ρ"}},
      {"sigma", {letter, "σ"}},
      {"tau", {letter, "τ"}},
      {"upsilon", {letter, "υ"}},
      {"phi", {letter, "ϕ"}},
      {"varphi", {letter, "φ"}},
      {"chi", {letter, "χ"}},
      {"psi", {letter, "ψ"}},
      {"omega", {letter, "ω"}},
      {"Gamma", {function, "Γ"}},
      {"Delta", {function, "Δ"}},
      {"Theta", {function, "Θ"}},
      {"Lambda", {function, "Λ"}},
      {"Xi", {function, "Ξ"}},
      {"Pi", {function, "Π"}},
      {"Sigma", {function, "Σ"}},
      {"Phi", {function, "Φ"}},
      {"Psi", {function, "Ψ"}},
      {"Omega", {function, "Ω"}},
      {"partial", {letter, "∂"}},
      {"nabla", {function, "∇"}},
      {"infty", {function, "∞"}},
      {"ell", {letter, "ℓ"}},
      {"top", {function, "⊤"}},
      {"bot", {function, "⊥"}},
      {"emptyset", {function, "∅"}},
      {"ldots", {function, "…"}},
      {"dots", {function, "…"}},
      {"cdots", {function, "⋯"}},
      {"vdots", {function, "⋮"}},
      {"prime", {sign, "′"}},
      {"exp", {function, "exp"}},
      {"log", {function, "log"}},
      {"max", {function, "max"}},
      {"min", {function, "min"}},
      {"sin", {function, "sin"}},
      {"cos", {function, "cos"}},
      {"tanh", {function, "tanh"}},
      {"det", {function, "det"}},
      {"ln", {function, "ln"}},
      {"lim", {function, "lim"}},
      {"sup", {function, "sup"}},
      {"inf", {function, "inf"}},
      {"arg", {function, "arg"}},
      {"deg", {function, "deg"}},
      {"gcd", {function, "gcd"}},
      {"Pr", {function, "Pr"}},
      {"hom", {function, "hom"}},
      {"dim", {function, "dim"}},
      {"ker", {function, "ker"}},
      {"circ", {sign, "∘"}},
      {"odot", {sign, "⊙"}},
      {"otimes", {sign, "⊗"}},
      {"oplus", {sign, "⊕"}},
      {"cdot", {sign, "⋅"}},
      {"times", {sign, "×"}},
      {"ast", {sign, "∗"}},
      {"star", {sign, "⋆"}},
      {"pm", {sign, "±"}},
      {"mp", {sign, "∓"}},
      {"div", {sign, "÷"}},
      {"bullet", {sign, "∙"}},
      {"wedge", {sign, "∧"}},
      {"land", {sign, "∧"}},
      {"vee", {sign, "∨"}},
      {"lor", {sign, "∨"}},
      {"neg", {sign, "¬"}},
      {"lnot", {sign, "¬"}},
      {"wr", {sign, "≀"}},
      {"rtimes", {sign, "⋊"}},
      {"ltimes", {sign, "⋉"}},
      {"in", {sign, "∈"}},
      {"notin", {sign, "∉"}},
      {"subset", {sign, "⊂"}},
      {"subseteq", {sign, "⊆"}},
      {"supset", {sign, "⊃"}},
      {"supseteq", {sign, "⊇"}},
      {"ni", {sign, "∋"}},
      {"cup", {sign, "∪"}},
      {"cap", {sign, "∩"}},
      {"setminus", {sign, "∖"}},
      {"forall", {sign, "∀"}},
      {"exists", {sign, "∃"}},
      {"iff", {sign, "⟺"}},
      {"implies", {sign, "⟹"}},
      {"Rightarrow", {sign, "⇒"}},
      {"Leftarrow", {sign, "⇐"}},
      {"Leftrightarrow", {sign, "⇔"}},
      {"rightarrow", {sign, "→"}},
      {"to", {sign, "→"}},
      {"longrightarrow", {sign, "⟶"}},
      {"longmapsto", {sign, "⟼"}},
      {"uparrow", {sign, "↑"}},
      {"downarrow", {sign, "↓"}},
      {"mapsto", {sign, "↦"}},
      {"leftarrow", {sign, "←"}},
      {"leftrightarrow", {sign, "↔"}},
      {"le", {sign, "≤"}},
      {"leq", {sign, "≤"}},
      {"ge", {sign, "≥"}},
      {"geq", {sign, "≥"}},
      {"ne", {sign, "≠"}},
      {"neq", {sign, "≠"}},
      {"ll", {sign, "≪"}},
      {"gg", {sign, "≫"}},
      {"approx", {sign, "≈"}},
      {"equiv", {sign, "≡"}},
      {"sim", {sign, "∼"}},
      {"cong", {sign, "≅"}},
      {"simeq", {sign, "≃"}},
      {"prec", {sign, "≺"}},
      {"succ", {sign, "≻"}},
      {"triangleleft", {sign, "◁"}},
      {"parallel", {sign, "∥"}},
      {"propto", {sign, "∝"}},
      {"perp", {sign, "⟂"}},
      {"mid", {sign, "∣"}},
      {"colon", {sign, ":"}},
      {"%", {sign, "%"}},
      {"_", {sign, "_"}},
      {"&", {sign, "&amp;"}},
      {"#", {sign, "#"}},
      {"$", {sign, "$"}},
      {"langle", {fence, "⟨"}},
      {"rangle", {fence, "⟩"}},
      {"lfloor", {fence, "⌊"}},
      {"rfloor", {fence, "⌋"}},
      {"lceil", {fence, "⌈"}},
      {"rceil", {fence, "⌉"}},
      {"lvert", {fence, "|"}},
      {"rvert", {fence, "|"}},
      {"lVert", {fence, "‖"}},
      {"rVert", {fence, "‖"}},
      {"{", {fence, "{"}},
      {"}", {fence, "}"}},
      {"|", {fence, "‖"}},
      {"sum", {big, "∑"}},
      {"prod", {big, "∏"}},
      {"bigoplus", {big, "⨁"}},
      {"bigotimes", {big, "⨂"}},
      {"bigcup", {big, "⋃"}},
      {"bigcap", {big, "⋂"}},
      {"int", {big, "∫"}},
      {"!", {space, "-0.1667em"}},
      {",", {space, "0.1667em"}},
      {":", {space, "0.2222em"}},
      {";", {space, "0.2778em"}},
      {" ", {space, "0.25em"}},
      {"quad", {space, "1em"}},
      {"qquad", {space, "2em"}},
  };
};

std::string utf8(char32_t c) {
  const auto byte = [](char32_t bits) { return static_cast<char>(static_cast<unsigned char>(bits)); };
  if (c < 0x10000) return {byte(0xe0 | c >> 12), byte(0x80 | (c >> 6 & 0x3f)), byte(0x80 | (c & 0x3f))};
  return {byte(0xf0 | c >> 18), byte(0x80 | (c >> 12 & 0x3f)), byte(0x80 | (c >> 6 & 0x3f)), byte(0x80 | (c & 0x3f))};
}

/// Letters that Unicode had before the alphabets, and that are missing in them.
constexpr std::pair<char, char32_t> blackboard_before[] = {{'C', 0x2102}, {'H', 0x210d}, {'N', 0x2115}, {'P', 0x2119},
                                                           {'Q', 0x211a}, {'R', 0x211d}, {'Z', 0x2124}};
constexpr std::pair<char, char32_t> calligraphic_before[] = {{'B', 0x212c}, {'E', 0x2130}, {'F', 0x2131}, {'H', 0x210b},
                                                             {'I', 0x2110}, {'L', 0x2112}, {'M', 0x2133}, {'R', 0x211b},
                                                             {'e', 0x212f}, {'g', 0x210a}, {'o', 0x2134}};

struct Ranges {
  char32_t upper, lower, digit; ///< digit 0: none
};

} // namespace

const Symbol* symbol_of(std::string_view command) {
  for (const auto& [name, symbol] : Table::symbols)
    if (name == command) return &symbol;
  return nullptr;
}

std::string in_alphabet(char c, Alphabet alphabet) {
  if (alphabet == Alphabet::blackboard)
    for (const auto& [from, to] : blackboard_before)
      if (from == c) return utf8(to);
  if (alphabet == Alphabet::calligraphic)
    for (const auto& [from, to] : calligraphic_before)
      if (from == c) return utf8(to);
  constexpr std::array<Ranges, 3> ranges = {
      {{0x1d400, 0x1d41a, 0x1d7ce}, {0x1d538, 0x1d552, 0x1d7d8}, {0x1d49c, 0x1d4b6, 0}}};
  const Ranges& range = ranges[static_cast<std::size_t>(alphabet)];
  if (c >= 'A' && c <= 'Z') return utf8(range.upper + static_cast<char32_t>(c - 'A'));
  if (c >= 'a' && c <= 'z') return utf8(range.lower + static_cast<char32_t>(c - 'a'));
  if (c >= '0' && c <= '9' && range.digit != 0) return utf8(range.digit + static_cast<char32_t>(c - '0'));
  return {c};
}

} // namespace eg::permute::report
