#pragma once
// What the fuzzers do with tokenizers. A target returns when all is as it must be; std::logic_error is a finding.

#include "core/base/bytes.h"

namespace eg::fuzz {

/// Takes `bytes` for a tokenizer.json: it is refused with a FileError, or tokenizes a text of every sort of character
/// and decodes what came out.
void tokenizer(ByteView bytes);

/// The first byte chooses a tokenizer and options, the rest is a text; what is not UTF-8 in it must be refused, and is
/// then replaced. What must hold of the tokens: ids are known, no special one among them unless the text was allowed to
/// spell it, offsets lie in the text at borders of characters and never run backwards, byte-level tokens decode to the
/// text, in one piece and as a stream, and a batch gives what the text gives alone.
void tokenizer_text(ByteView bytes);

} // namespace eg::fuzz
