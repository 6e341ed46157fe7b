#pragma once
// Lists the numbered equations of the papers, each with the rows that check it or the reason why there is none.

#include <string>
#include <string_view>
#include <vector>

namespace eg::permute {

/// One number of one paper.
struct NumberedEquation {
  std::string name;             ///< "eq42" of [P], "s1-eq42" of [S], "stip-eq2" of [T], as a filter has it
  std::vector<std::string> ids; ///< rows of the catalogue that check it; empty: none
  std::string reason;           ///< why there is none
};

/// Every number of the papers named [P] (1-88), [S] (1-100) and [T] (1-5) in docs/catalogue.md, in this order.
const std::vector<NumberedEquation>& numbered_equations();

/// The number that a filter names; null where it names none.
const NumberedEquation* numbered_equation(std::string_view filter);

} // namespace eg::permute
