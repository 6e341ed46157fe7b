#pragma once
// Shares functions that the readers of tokenizer files use.

#include "data/text/tokenizer/fields.h"
#include "data/text/tokenizer/parts.h"

namespace eg::data::tok {

/// {"token": id, ...}
Vocabulary read_vocabulary(const Fields& entries);

/// Added tokens as files list them.
class AddedTokenList {
public:
  explicit AddedTokenList(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {}

  /// A further token, valid until the next. Throws FileError in the words of `where` for a content that is empty, too
  /// long or there already, and an id that another token has or that is not the vocabulary's for this content.
  AddedToken& add(const Fields& where, const std::string& content, std::uint64_t id);
  /// The same with the settings of `fields`.
  AddedToken& add(const Fields& where, const std::string& content, std::uint64_t id, const Fields& fields);
  /// The token with this content, or nullptr.
  AddedToken* find(const std::string& content);
  std::vector<AddedToken> take() { return std::move(tokens_); }

private:
  const Vocabulary* vocabulary_;
  std::vector<AddedToken> tokens_;
  TextTable places_; // in tokens_, by content
  PairTable ids_;    // (id, 0): taken
};

/// Reads `processor` of a tokenizer.json into parts.post_processor; the vocabulary must be there. Throws FileError for
/// what is not supported.
void read_post_processor(const Fields& processor, Tokenizer::Parts& parts);

/// [CLS] A [SEP] and [CLS] A [SEP] B [SEP], the second text and its end of type 1.
void set_bert_template(const std::string& cls, std::int64_t cls_id, const std::string& sep, std::int64_t sep_id,
                       PostProcessor& processor);

} // namespace eg::data::tok
