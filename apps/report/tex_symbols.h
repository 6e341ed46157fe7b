#pragma once
// Maps commands of TeX formulas to symbols.

#include <cstdint>
#include <string>
#include <string_view>

namespace eg::permute::report {

enum class SymbolClass : std::uint8_t {
  letter,   ///< <mi>
  function, ///< <mi>, upright: \exp
  sign,     ///< <mo>
  fence,    ///< <mo> that stretches with \left, \right, \bigl, ...
  big,      ///< <mo> whose scripts are below and above in display style
  space,    ///< <mspace> of this width
};

struct Symbol {
  SymbolClass kind;
  std::string_view text; ///< UTF-8, or the width of a space
};

/// The symbol of a command (without its backslash), or null.
const Symbol* symbol_of(std::string_view command);

/// The alphabets that MathML takes from Unicode.
enum class Alphabet : std::uint8_t { bold, blackboard, calligraphic };
/// A letter or digit in an alphabet as UTF-8; any other character stays.
std::string in_alphabet(char c, Alphabet alphabet);

} // namespace eg::permute::report
