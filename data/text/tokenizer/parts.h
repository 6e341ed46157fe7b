#pragma once
// Defines the parts of a tokenizer.

#include "data/text/tokenizer/model.h"
#include "data/text/tokenizer/post_process.h"

#include <map>
#include <memory>
#include <string>

namespace eg::data {

namespace tok {

/// How tokens become text again.
struct Decoder {
  enum class Kind : std::uint8_t { blanks, word_piece, byte_level };
  Kind kind = Kind::blanks;  ///< blanks: a blank between tokens
  std::string prefix = "##"; ///< WordPiece: of tokens that continue a word
  bool clean_up = true;      ///< WordPiece: no blanks before punctuation
};

} // namespace tok

struct Tokenizer::Parts {
  tok::Vocabulary vocabulary; ///< the model's
  tok::AddedTokens added;     ///< some of them are the model's, too
  tok::Normalizer normalizer;
  std::unique_ptr<tok::Model> model;
  bool cuts_words = true; ///< the model splits its text into words
  tok::PostProcessor post_processor;
  tok::Decoder decoder;
  EncodeOptions defaults;
  std::map<std::string, std::int64_t, std::less<>> roles;

  /// The token of an id, or null.
  const std::string* token(std::int64_t id) const;
  /// The id of a token, or `tok::none`.
  std::uint32_t find(std::string_view token) const;
};

namespace tok {

/// The tokens of one text, its offsets not yet trimmed.
Encoding encode_text(const Tokenizer::Parts& parts, std::string_view text, const EncodeOptions& options);

/// A tokenizer.json.
std::shared_ptr<Tokenizer::Parts> read_tokenizer_json(std::string_view text, const std::string& source);
/// vocab.txt in `folder`, and the configuration beside it.
std::shared_ptr<Tokenizer::Parts> read_word_piece_folder(const std::string& folder);
/// vocab.json and merges.txt in `folder`, and the configuration beside them.
std::shared_ptr<Tokenizer::Parts> read_byte_pair_folder(const std::string& folder);
/// The ids of "pad", "cls" and so on, as tokenizer_config.json and special_tokens_map.json in `folder` give them.
void read_roles(const std::string& folder, Tokenizer::Parts& parts);

} // namespace tok
} // namespace eg::data
