#pragma once
// A byte-level BPE tokenizer without merges: 256 tokens, token i for byte i, and one that ends texts.

#include <string>

namespace eg::test {

/// vocab.json and merges.txt in `folder`; <|endoftext|> is 256.
void write_byte_tokenizer(const std::string& folder);

} // namespace eg::test
