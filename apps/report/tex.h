#pragma once
// Converts TeX formulas to MathML, which browsers draw without a script or a font of their own.

#include <cstdint>
#include <string>
#include <string_view>

namespace eg::permute::report {

enum class MathStyle : std::uint8_t { inline_, display };

/// One <math> element for a formula without its dollar signs: letters, numbers, scripts and primes, \frac, \sqrt,
/// \mathrm and the like, \text, accents, delimiters (\left, \bigl, ...), matrices, and the symbols of tex_symbols.h.
/// The formula itself is in the attribute alttext. Throws ValueError that quotes the formula and says what is
/// wrong: an unknown command, a brace or a pair left open, a script without a base or given twice, a missing argument.
std::string mathml(std::string_view tex, MathStyle style = MathStyle::display);

} // namespace eg::permute::report
