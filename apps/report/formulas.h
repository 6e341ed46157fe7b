#pragma once
// Gives the catalogue's formulas as MathML, which browsers draw without a script or a font of their own.

#include <string_view>
#include <vector>

namespace eg::report {

/// The <math> elements of a formula of the catalogue, without its dollar signs: one for each part that may stand on a
/// line of its own, with the part's TeX in the attribute alttext. Throws ValueError for a formula that has no entry in
/// formulas.inc, which scripts/make_formulas.py writes.
std::string_view mathml(std::string_view tex);

/// Every formula that has an entry, in the order of the file.
std::vector<std::string_view> rendered_formulas();

} // namespace eg::report
