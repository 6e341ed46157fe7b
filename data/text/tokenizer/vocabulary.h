#pragma once
// Maps tokens to ids, and finds the added tokens in the text before the model sees it.

#include "data/text/tokenizer/normalizer.h"
#include "data/text/tokenizer/tables.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace eg::data::tok {

/// Tokens by id and ids by token. Ids may leave gaps.
class Vocabulary {
public:
  /// `expected`: about how many tokens will come.
  explicit Vocabulary(std::size_t expected = 0) : expected_(expected) {}

  /// Adds a token. Throws FileError that begins with `source` for a token or an id that exists already, text that is
  /// not UTF-8, and an id out of all proportion to the number of tokens.
  void add(std::string_view token, std::uint64_t id, const std::string& source);
  /// `none` when there is no such token.
  std::uint32_t find(std::string_view token) const { return ids_.find(token); }
  bool has(std::uint64_t id) const { return id < known_.size() && known_[static_cast<std::size_t>(id)]; }
  const std::string& token(std::uint32_t id) const { return tokens_[id]; }
  /// One more than the highest id.
  std::size_t end() const { return tokens_.size(); }
  std::size_t size() const { return ids_.size(); }

private:
  std::size_t expected_;
  TextTable ids_;
  std::vector<std::string> tokens_;
  std::vector<bool> known_;
};

/// A token that is found in the text itself, whatever the model would do with it.
struct AddedToken {
  std::string content;
  std::uint32_t id = 0;
  bool special = false;     ///< left out by decode, and ordinary text to encode unless it is asked to recognise it
  bool single_word = false; ///< not inside a word
  bool strip_left = false;  ///< takes the white space before it along
  bool strip_right = false; ///< and behind it
  bool normalized = false;  ///< looked for in the normalised text
};

/// Where an added token was found, or ordinary text between them (`token` is null).
struct Found {
  const AddedToken* token = nullptr;
  std::size_t begin = 0, end = 0; ///< bytes
};

class AddedTokens {
public:
  AddedTokens() = default;
  /// `normalizer` prepares the contents that are looked for in normalised text.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer);

  /// Splits `text`; what comes out covers it in order, but for white space that two tokens claim.
  /// `normalized`: looks for the tokens of normalised text, else for the others. `special`: special ones as well.
  void split(std::string_view text, bool normalized, bool special, std::vector<Found>& out) const;
  /// False when split would give back the text.
  bool any(bool normalized) const { return !(normalized ? normalized_ : raw_).empty(); }
  /// The added token of that id, or null.
  const AddedToken* find(std::uint32_t id) const;
  bool is_special(std::uint32_t id) const;
  const std::vector<AddedToken>& all() const { return tokens_; }

private:
  std::vector<AddedToken> tokens_;
  ByteTrie raw_, normalized_;                              // to places in tokens_
  std::unordered_map<std::uint32_t, std::uint32_t> by_id_; // to places in tokens_
};

} // namespace eg::data::tok
