#pragma once
// Implements WordPiece (Schuster and Nakajima 2012) with BERT's splitting of words.

#include "data/text/tokenizer/model.h"

namespace eg::data::tok {

struct WordPieceOptions {
  std::string unknown = "[UNK]";
  std::string prefix = "##";        ///< of tokens that continue a word
  std::uint64_t longest_word = 100; ///< in characters; longer ones are unknown
};

/// Words are separated by white space; each punctuation character is a word. A word becomes the longest token it
/// begins with, then the longest continuing token that the rest begins with, and so on; when there is none, the whole
/// word is unknown. Special tokens are not pieces of words. Throws FileError when the vocabulary lacks the unknown
/// token.
std::unique_ptr<Model> make_word_piece(const Vocabulary& vocabulary, const AddedTokens& added,
                                       const WordPieceOptions& options, const std::string& source);

} // namespace eg::data::tok
