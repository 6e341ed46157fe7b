#pragma once
// Reads tests/theorems/sharp_words.txt: sentences that say what is all there is, each with what backs it.

#include <cstdint>
#include <string>
#include <vector>

namespace eg::permute {

/// One line of the list.
struct SharpSentence {
  std::string file, words, kind, what; ///< kind: "row", "drawn", "test", "-"
};
std::vector<SharpSentence> sharp_sentences();
/// The rows that a sentence for all permutations names.
std::vector<std::string> ids_of(const SharpSentence& sentence);

/// How often a row with a statement for all permutations is drawn, with other weights, shapes and permutations.
constexpr std::int64_t draws_of_a_statement = 200;

std::string text_of(const std::string& path);
/// Without spaces at both ends, and with one space where there are several.
std::string trimmed(const std::string& text);

} // namespace eg::permute
