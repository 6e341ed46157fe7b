#pragma once
// Small tokenizers made in memory, as tokenizer.json.

#include <string>

namespace eg::test {

/// Lower-casing WordPiece. Ids: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, then words and pieces of "unaffable",
/// "don't", "naive" and some punctuation. BERT's template and decoder.
std::string word_piece_json();

/// Byte-level BPE with GPT-2's pattern: the 256 bytes (ids 0 to 255), tokens of a few merges, and <|end|>, which is
/// special. No template. `changes` replaces fields of the model (JSON text without braces).
std::string byte_pair_json();

/// `json` with the first `from` replaced by `to`; std::logic_error when there is none.
std::string replaced(std::string json, const std::string& from, const std::string& to);

} // namespace eg::test
