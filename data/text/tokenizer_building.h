#pragma once
// Trains tokenizers on a text and writes them as the content of a tokenizer.json, which this library and Hugging Face's
// tokenizers read.

#include "core/base/function_ref.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace eg::data {

/// Every character of `text` is a token: the 256 bytes in their order, then the characters of several bytes, joined
/// from their bytes (byte-level BPE without words). Text that holds other characters has tokens too: their bytes. The
/// text must be UTF-8.
std::string character_tokenizer(std::string_view text);

/// WordPiece without pieces: the lower-case words and punctuation marks, as BERT cuts them, that occur in `texts` at
/// least twice, the most frequent first, at most `most` tokens with [PAD], [UNK], [CLS], [SEP] and [MASK], which are 0
/// to 4. Every other word is [UNK]. `each` calls what it is given with every text.
std::string word_tokenizer(FunctionRef<void(FunctionRef<void(std::string_view)>)> each, std::size_t most);

} // namespace eg::data
