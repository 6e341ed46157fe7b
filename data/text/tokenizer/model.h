#pragma once
// Turns a stretch of ordinary text into tokens: WordPiece or byte-level BPE.

#include "data/text/tokenizer/vocabulary.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace eg::data::tok {

/// A token of a text.
struct Piece {
  std::uint32_t id;
  ByteSpan bytes; ///< of the original
};

/// A word and the tokens it became, kept for the next time it comes.
struct CachedWord {
  static constexpr std::size_t longest = 24, most = 6; // bytes and tokens: a slot fits a cache line
  std::uint8_t size = 0;                               ///< 0: nothing here
  std::uint8_t count = 0;
  char bytes[longest];
  std::uint8_t ends[most]; ///< where each token ends in the word
  std::uint32_t ids[most];
};

/// Part of a word that is being merged; a doubly linked list in a vector.
struct Symbol {
  std::uint32_t id;
  std::uint32_t size; ///< bytes; 0: merged into the one before it
  std::uint32_t before, behind;
};

/// A merge that may be made: the symbol at `place` with the one behind it.
struct Merge {
  std::uint32_t rank, place, result;
};

/// Memory that the calls of one encode() share.
struct Workspace {
  Normalized normalized;
  std::vector<Found> found_raw, found_normalized;
  std::string prefixed;
  std::vector<ByteSpan> prefixed_origin;
  std::vector<Symbol> symbols;
  std::vector<Merge> merges;
  std::vector<CachedWord> cache; ///< empty: none is kept
};

class Model {
public:
  virtual ~Model() = default;
  /// Appends the tokens of `stretch`, which is not empty.
  virtual void tokenize(const Stretch& stretch, Workspace& workspace, std::vector<Piece>& out) const = 0;
  /// "WordPiece" or "byte-level BPE".
  virtual const char* kind() const = 0;
  /// Bytes that the token represents in decoded text, if any; else the token is a text.
  virtual bool bytes_of(std::string_view token, std::string& out) const = 0;
};

} // namespace eg::data::tok
