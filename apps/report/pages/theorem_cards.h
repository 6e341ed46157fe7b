#pragma once
// Renders results of the catalogue as HTML: a summary, and a card for each identity.

#include "permute/catalogue/catalogue.h"

#include <string>
#include <vector>

namespace eg::report {

/// The rules that the markup below needs.
extern const char* const card_styles;

/// How many rows passed, the ones that did not by name, and counts by paper and kind.
std::string summary(const std::vector<permute::VerifyResult>& results);

/// A link to each paper's heading that cards() makes for these results, as a list of chips.
std::string paper_links(const std::vector<permute::VerifyResult>& results);

/// A heading for each paper and a card for each row of it, in the catalogue's order: id, title, equation, statement,
/// formula (MathML), error against tolerance and control on one scale, the numbers (each also in full in a <data>
/// element), and bits. Results of one id, in several dtypes, share a card.
std::string cards(const std::vector<permute::VerifyResult>& results);

} // namespace eg::report
