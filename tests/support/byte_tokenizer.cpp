#include "support/byte_tokenizer.h"

#include <fmt/format.h>

#include <fstream>

namespace eg::test {
namespace {

/// GPT-2's letter for a byte: itself where it can be printed, else the next of U+0100, U+0101, ...
std::string letter(unsigned byte, unsigned& others) {
  const bool printed = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  const unsigned code = printed ? byte : 0x100 + others++;
  if (code < 0x80)
    return code == '"' || code == '\\' ? fmt::format("\\{}", static_cast<char>(code))
                                       : std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
}

} // namespace

void write_byte_tokenizer(const std::string& folder) {
  std::ofstream vocab(folder + "/vocab.json");
  vocab << "{";
  unsigned others = 0;
  for (unsigned byte = 0; byte < 256; ++byte) vocab << fmt::format("\"{}\":{},", letter(byte, others), byte);
  vocab << "\"<|endoftext|>\":256}";
  std::ofstream(folder + "/merges.txt") << "#version: 0.2\n";
}

} // namespace eg::test
