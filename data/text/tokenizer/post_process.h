#pragma once
// Post-processes the model's tokens: truncation, special tokens around them, offsets without blanks, padding.

#include "data/text/tokenizer.h"

namespace eg::data::tok {

/// A place of a template.
struct TemplatePiece {
  enum class Kind : std::uint8_t { first, second, special };
  Kind kind = Kind::first;
  std::int64_t type_id = 0;
  std::vector<std::int64_t> ids; ///< of special tokens
  std::vector<std::string> tokens;
};

/// Offsets of tokens that begin or end with blanks do not cover the blanks.
struct OffsetTrim {
  bool wanted = false;
  bool prefix_blank = false; ///< a first blank may be one that was put there
};

struct PostProcessor {
  /// The special tokens around one text and around two; empty: none, and type ids 0 and 1.
  std::vector<TemplatePiece> single, pair;
  OffsetTrim trim;

  /// Tokens that the template adds.
  std::size_t added(bool is_pair) const;
};

/// Shortens `first` and `second` (null: there is none) to max_length tokens together. Throws ValueError when the
/// strategy cannot do that.
void truncate(Encoding& first, Encoding* second, const Truncation& truncation, std::size_t max_length);

/// Offsets without the blanks that tokens begin or end with; `text` is where the tokens come from.
void trim_offsets(Encoding& encoding, std::string_view text, const OffsetTrim& trim);

/// Puts the texts' tokens and the special ones together.
Encoding assemble(const PostProcessor& processor, Encoding first, std::optional<Encoding> second,
                  bool add_special_tokens);

/// Fills up to `length` tokens; longer ones stay.
void pad(Encoding& encoding, std::size_t length, const Padding& padding, std::int64_t id, const std::string& token);

} // namespace eg::data::tok
