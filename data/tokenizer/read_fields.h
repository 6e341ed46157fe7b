#pragma once
// Pieces that the readers of tokenizer files share.

#include "data/tokenizer/fields.h"
#include "data/tokenizer/parts.h"

namespace eg::data::tok {

/// {"token": id, ...}
Vocabulary read_vocabulary(const Fields& entries);

/// Reads `processor` of a tokenizer.json into parts.post_processor; the vocabulary must be there. Throws FileError for
/// what is not supported.
void read_post_processor(const Fields& processor, Tokenizer::Parts& parts);

/// [CLS] A [SEP] and [CLS] A [SEP] B [SEP], the second text and its end of type 1.
void set_bert_template(const std::string& cls, std::int64_t cls_id, const std::string& sep, std::int64_t sep_id,
                       PostProcessor& processor);

} // namespace eg::data::tok
