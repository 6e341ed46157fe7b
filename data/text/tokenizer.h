#pragma once
// Converts text to token ids and back, as Hugging Face's `tokenizers` does: WordPiece and byte-level BPE
// (docs/tokenizers.md).

#include "core/base/utf8.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eg::data {

/// [begin, end) of a text.
struct TextSpan {
  std::size_t begin = 0, end = 0;
  bool operator==(const TextSpan&) const = default;
};

/// The tokens of a text or of a pair of texts. All vectors have the same length.
struct Encoding {
  std::vector<std::int64_t> ids;
  std::vector<std::string> tokens;               ///< as the vocabulary spells them; added tokens as the text does
  std::vector<TextSpan> offsets;                 ///< in Unicode characters of the text that the token comes from
  std::vector<TextSpan> byte_offsets;            ///< the same in bytes of UTF-8
  std::vector<std::int64_t> type_ids;            ///< 0 for the first text, 1 for the second, or by the template
  std::vector<std::int64_t> attention_mask;      ///< 0 for padding, 1 for everything else
  std::vector<std::int64_t> special_tokens_mask; ///< 1 for what is in neither text
  std::vector<std::int64_t> sequence_ids;        ///< 0 for the first text, 1 for the second, -1 for neither
  std::size_t truncated = 0;                     ///< tokens that truncation left out

  std::size_t size() const { return ids.size(); }
};

/// The end of a sequence at which something is done.
enum class Side : std::uint8_t { left, right };

/// What truncation shortens: the longer text first, or one of the two alone.
enum class TruncationStrategy : std::uint8_t { longest_first, only_first, only_second };

struct Truncation {
  std::size_t max_length = 512; ///< tokens, with those that the template adds
  TruncationStrategy strategy = TruncationStrategy::longest_first;
  Side side = Side::right;
};

struct Padding {
  std::size_t length = 0;      ///< tokens; 0: as many as the longest of the batch has
  std::size_t multiple_of = 0; ///< rounds that up; 0: it stays
  Side side = Side::right;
  std::optional<std::int64_t> id; ///< of the padding token; none: the tokenizer's own
  std::int64_t type_id = 0;
};

/// What a special token's name means when it is spelt in the text.
enum class SpecialInText : std::uint8_t {
  ordinary,  ///< text like any other: the text cannot contain special tokens
  recognise, ///< the special token, as Hugging Face's tokenizers do by default
};

struct EncodeOptions {
  bool add_special_tokens = true; ///< what the template adds: [CLS] and [SEP], say
  SpecialInText special_in_text = SpecialInText::ordinary;
  std::optional<Truncation> truncation = {};
  std::optional<Padding> padding = {};
  /// Called now and then with the bytes of the text that are done; what it throws ends encode().
  std::function<void(std::size_t done)> progress = {};
};

struct DecodeOptions {
  bool skip_special_tokens = true;
  /// WordPiece: no blanks before punctuation and contractions; none: the tokenizer's default.
  std::optional<bool> clean_up_spaces;
};

/// One text or two, which must live as long as the call that they are given to.
struct TextInput {
  TextInput(std::string_view text_in) : text(text_in) {}   // NOLINT(google-explicit-constructor): a text is an input
  TextInput(const std::string& text_in) : text(text_in) {} // NOLINT(google-explicit-constructor)
  TextInput(const char* text_in) : text(text_in) {}        // NOLINT(google-explicit-constructor)
  TextInput(std::string_view text_in, std::string_view pair_in) : text(text_in), pair(pair_in) {}

  std::string_view text;
  std::optional<std::string_view> pair;
};

/// A tokenizer. Nothing changes after construction: copies share everything, and threads may use one together.
class Tokenizer {
public:
  /// Opens a folder, or one file of it: `tokenizer.json` if it is there, else `vocab.txt` (WordPiece), else
  /// `vocab.json` with `merges.txt` (byte-level BPE as GPT-2 has it). Beside the older files, `tokenizer_config.json`,
  /// `special_tokens_map.json` and `added_tokens.json` are honoured. Throws FileError for what is missing, malformed or
  /// not supported; parts that are not supported are refused by name, never left out.
  static Tokenizer open(const std::string& path);
  /// A tokenizer.json that is in memory; `source` is what errors call it.
  static Tokenizer parse_json(std::string_view text, const std::string& source);

  /// Throws ValueError when a text is not UTF-8 (which byte) or has 4 GiB or more, and when truncation or padding
  /// cannot be done as asked. Without options: those of defaults().
  Encoding encode(const TextInput& input) const;
  Encoding encode(const TextInput& input, const EncodeOptions& options) const;
  /// Many inputs at a time, on all threads; padding without a length makes all as long as the longest. Errors say which
  /// input.
  std::vector<Encoding> encode_batch(std::span<const TextInput> inputs, const EncodeOptions& options) const;

  /// The text of the tokens. Throws IndexError for an unknown id. Bytes that make no UTF-8 become U+FFFD.
  std::string decode(std::span<const std::int64_t> ids, const DecodeOptions& options = {}) const;

  /// Truncation and padding that tokenizer.json configures; all else as in EncodeOptions.
  const EncodeOptions& defaults() const;
  /// "WordPiece" or "byte-level BPE".
  std::string kind() const;
  /// Tokens that there are.
  std::size_t size() const;
  /// One more than the highest id: rows that an embedding needs.
  std::size_t id_end() const;
  std::optional<std::int64_t> find(std::string_view token) const;
  /// Throws IndexError for an unknown id.
  const std::string& token(std::int64_t id) const;
  /// True for the tokens that decode leaves out and text cannot spell.
  bool is_special(std::int64_t id) const;
  /// The id of the token for "pad", "cls", "sep", "mask", "unk", "bos" or "eos", where the files define it.
  std::optional<std::int64_t> role(std::string_view name) const;

  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

private:
  friend class DecodeStream;
  std::shared_ptr<const Parts> parts_;
};

/// Tokens that arrive one by one, given on as text as soon as it is whole: never half a character. The pieces, joined,
/// are what decode() gives for all tokens.
class DecodeStream {
public:
  explicit DecodeStream(Tokenizer tokenizer, DecodeOptions options = {});
  /// The text that is whole with this token; often none. Throws IndexError for an unknown id.
  std::string push(std::int64_t id);
  /// Ends the text; gives what was held back.
  std::string finish();

private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  Utf8Stream bytes_;
  bool begun_ = false;
};

} // namespace eg::data
