#include "fuzz/tokenizer_samples.h"

#include <array>
#include <fmt/format.h>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace eg::test {
namespace {

constexpr std::string_view special_form =
    R"({{"id":{},"content":"{}","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}})";

/// GPT-2's letter for a byte, as JSON spells it.
std::string letter(int byte) {
  if (byte > ' ' && byte < 0x7F && byte != '"' && byte != '\\') return std::string(1, static_cast<char>(byte));
  int next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    const int c = printable ? b : next++;
    if (b == byte) return fmt::format("\\u{:04x}", c);
  }
  return {};
}

std::string spelt(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += letter(static_cast<unsigned char>(c));
  return out;
}

} // namespace

std::string word_piece_json() {
  constexpr std::array tokens{"[PAD]", "[UNK]", "[CLS]",  "[SEP]", "[MASK]", "un", "##aff", "##able", "##a", "hello",
                              "world", ",",     ".",      "!",     "'",      "do", "not",   "don",    "t",   "naive",
                              "a",     "##b",   "\u4e2d", "[",     "]",      "se", "##p",   "s",      "n",   "##ing"};
  std::string vocab;
  for (std::size_t i = 0; i < tokens.size(); ++i) vocab += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", tokens[i], i);
  std::string added;
  for (int i = 0; i < 5; ++i)
    added += (i == 0 ? "" : ",") + fmt::format(fmt::runtime(special_form), i, tokens[static_cast<std::size_t>(i)]);
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)" + added +
         R"(],"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},)"
         R"("pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":"TemplateProcessing","single":[)"
         R"({"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}}],)"
         R"("pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}},)"
         R"({"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"[SEP]","type_id":1}}],)"
         R"("special_tokens":{"[CLS]":{"id":"[CLS]","ids":[2],"tokens":["[CLS]"]},"[SEP]":{"id":"[SEP]","ids":[3],"tokens":["[SEP]"]}}},)"
         R"("decoder":{"type":"WordPiece","prefix":"##","cleanup":true},"model":{"type":"WordPiece","unk_token":"[UNK]",)"
         R"("continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{)" +
         vocab + "}}}";
}

std::string byte_pair_json() {
  const std::vector<std::pair<std::string, std::string>> rules{
      {"h", "e"},   {"l", "l"}, {"he", "ll"},   {"hell", "o"},    {" ", "w"}, {"o", "r"},
      {" w", "or"}, {"l", "d"}, {" wor", "ld"}, {"\xC3", "\xA9"}, {"a", "a"}, {"aa", "aa"}};
  std::string vocab;
  std::string merges;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = letter(byte);
    vocab += fmt::format("{}\"{}\":{}", byte == 0 ? "" : ",", text, byte);
  }
  int id = 256;
  for (const auto& [left, right] : rules) {
    vocab += fmt::format(",\"{}\":{}", spelt(left + right), id++);
    merges += fmt::format("{}[\"{}\",\"{}\"]", merges.empty() ? "" : ",", spelt(left), spelt(right));
  }
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)" +
         fmt::format(fmt::runtime(special_form), id, "<|end|>") +
         R"(],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},)"
         R"("post_processor":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true},)"
         R"("decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},)"
         R"("model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":"","end_of_word_suffix":"",)"
         R"("fuse_unk":false,"byte_fallback":false,"ignore_merges":false,"vocab":{)" +
         vocab + R"(},"merges":[)" + merges + "]}}";
}

std::string replaced(std::string json, const std::string& from, const std::string& to) {
  const std::size_t at = json.find(from);
  if (at == std::string::npos) throw std::logic_error("the sample does not hold " + from);
  return json.replace(at, from.size(), to);
}

} // namespace eg::test
