#pragma once
// Merges byte pairs: byte-level BPE (Sennrich et al. 2016; Radford et al. 2019).

#include "data/text/tokenizer/byte_words.h"
#include "data/text/tokenizer/model.h"

#include <utility>

namespace eg::data::tok {

struct BytePairOptions {
  WordPattern pattern = WordPattern::gpt2;
  bool prefix_blank = false; ///< a blank is put before text that does not begin with one
  bool whole_words = false;  ///< a word that is a token becomes it, whatever the merges are ("ignore_merges")
};

/// Tokens that may be joined, in order of preference, spelt with byte letters.
using MergeRules = std::vector<std::pair<std::string, std::string>>;

/// A word is its bytes, each a token; of the neighbours that a rule joins, the pair of the lowest rule (the leftmost of
/// equals) is joined until there is none. Takes O(n log n) time for a word of n bytes. Throws FileError when the
/// vocabulary lacks a byte or a token of a rule, when two rules join the same, and when a rule makes a special
/// token, which text could then spell.
std::unique_ptr<Model> make_byte_pairs(const Vocabulary& vocabulary, const AddedTokens& added, const MergeRules& rules,
                                       const BytePairOptions& options, const std::string& source);

} // namespace eg::data::tok
