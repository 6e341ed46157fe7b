#pragma once
// Prints one row of the catalogue for readers: statement, formula, sizes, and both sides as matrices.

#include "permute/catalogue/explain.h"

#include <cstddef>
#include <string>

namespace eg::cli {

struct ExplainStyle {
  std::size_t width = 100; ///< matrices that do not fit beside each other stand below each other
  bool colours = false;    ///< what holds is green, what differs is red
};

/// The whole text, with a line end. Matrices of more than 12 rows or columns, and slices beyond the third, are cut, and
/// the text says so.
std::string explanation_text(const permute::Explanation& explanation, const ExplainStyle& style);

} // namespace eg::cli
