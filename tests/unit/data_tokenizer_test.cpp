// What a tokenizer does, on small ones made in memory. Agreement with Hugging Face's: data_tokenizer_golden_test.

#include "data/text/tokenizer.h"

#include "core/base/error.h"
#include "fuzz/tokenizer_samples.h"
#include "support/message.h"

#include <doctest/doctest.h>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

using Ids = std::vector<std::int64_t>;
using Tokens = std::vector<std::string>;

Tokenizer word_piece() { return Tokenizer::parse_json(word_piece_json(), "sample"); }
Tokenizer byte_pairs() { return Tokenizer::parse_json(byte_pair_json(), "sample"); }

EncodeOptions bare() {
  EncodeOptions options;
  options.add_special_tokens = false;
  return options;
}

} // namespace

TEST_CASE("tokenizer: WordPiece takes the longest token first and keeps offsets") {
  const Encoding got = word_piece().encode("Un\u0061ffable, HELLO!");
  CHECK(got.tokens == Tokens{"[CLS]", "un", "##aff", "##able", ",", "hello", "!", "[SEP]"});
  CHECK(got.ids == Ids{2, 5, 6, 7, 11, 9, 13, 3});
  CHECK(got.offsets == std::vector<TextSpan>{{0, 0}, {0, 2}, {2, 5}, {5, 9}, {9, 10}, {11, 16}, {16, 17}, {0, 0}});
  CHECK(got.special_tokens_mask == Ids{1, 0, 0, 0, 0, 0, 0, 1});
  CHECK(got.sequence_ids == Ids{-1, 0, 0, 0, 0, 0, 0, -1});
  CHECK(got.attention_mask == Ids(8, 1));
}

TEST_CASE("tokenizer: accents, ideographs and control characters by BERT's rules") {
  const Tokenizer tokenizer = word_piece();
  const Encoding got = tokenizer.encode("Nai\u0308ve\u4e2d na\u00efve a\u200bb x\ty", bare());
  CHECK(got.tokens == Tokens{"naive", "\u4e2d", "naive", "a", "##b", "[UNK]", "[UNK]"});
  CHECK(got.offsets == std::vector<TextSpan>{{0, 6}, {6, 7}, {8, 13}, {14, 15}, {16, 17}, {18, 19}, {20, 21}});
  CHECK(got.byte_offsets == std::vector<TextSpan>{{0, 7}, {7, 10}, {11, 17}, {18, 19}, {22, 23}, {24, 25}, {26, 27}});
}

TEST_CASE("tokenizer: a word of more than a hundred characters is unknown") {
  const Tokenizer tokenizer = word_piece();
  CHECK(tokenizer.encode("a" + std::string(99, 'b'), bare()).size() == 100);
  const Encoding longer = tokenizer.encode("a" + std::string(100, 'b'), bare());
  CHECK(longer.tokens == Tokens{"[UNK]"});
  CHECK(longer.offsets == std::vector<TextSpan>{{0, 101}});
}

TEST_CASE("tokenizer: a pair has a template of its own") {
  const Encoding got = word_piece().encode({"hello", "world!"});
  CHECK(got.ids == Ids{2, 9, 3, 10, 13, 3});
  CHECK(got.type_ids == Ids{0, 0, 0, 1, 1, 1});
  CHECK(got.sequence_ids == Ids{-1, 0, -1, 1, 1, -1});
  CHECK(got.offsets[3] == TextSpan{0, 5}); // counted in the second text
  const Encoding none = word_piece().encode({"hello", "world!"}, bare());
  CHECK(none.ids == Ids{9, 10, 13});
  CHECK(none.type_ids == Ids{0, 1, 1});
}

TEST_CASE("tokenizer: byte pairs are merged by rank, offsets cover whole characters") {
  const Tokenizer tokenizer = byte_pairs();
  const Encoding got = tokenizer.encode("hello world \u4e2d");
  CHECK(got.tokens == Tokens{"hello", "\u0120world", "\u0120", "\u00e4", "\u00b8", "\u0143"});
  CHECK(got.offsets == std::vector<TextSpan>{{0, 5}, {5, 11}, {11, 12}, {12, 13}, {12, 13}, {12, 13}});
  CHECK(got.byte_offsets == std::vector<TextSpan>{{0, 5}, {5, 11}, {11, 12}, {12, 15}, {12, 15}, {12, 15}});
  CHECK(tokenizer.encode("aaaaaaa").tokens == Tokens{"aaaa", "aa", "a"});
  CHECK(tokenizer.encode("").size() == 0);
}

TEST_CASE("tokenizer: text cannot spell special tokens unless it is allowed to") {
  EncodeOptions recognise = bare();
  recognise.special_in_text = SpecialInText::recognise;
  const Tokenizer wordy = word_piece();
  CHECK(wordy.encode("se[SEP]", bare()).tokens == Tokens{"se", "[", "se", "##p", "]"});
  CHECK(wordy.encode("se[SEP]", recognise).tokens == Tokens{"se", "[SEP]"});
  CHECK(wordy.encode("[UNK] [unk]", recognise).ids == Ids{1, 23, 1, 24});
  const Tokenizer bytes = byte_pairs();
  const std::int64_t end = bytes.find("<|end|>").value();
  CHECK(bytes.is_special(end));
  CHECK(bytes.encode("a<|end|>").size() == 8);
  for (const std::int64_t id : bytes.encode("a<|end|><|end|>").ids) CHECK_FALSE(bytes.is_special(id));
  CHECK(bytes.encode("a<|end|>", recognise).ids == Ids{static_cast<std::int64_t>('a'), end});
}

TEST_CASE("tokenizer: truncation shortens the longer text first, or the one that is named") {
  const Tokenizer tokenizer = word_piece();
  const std::string three = "a a a";
  const std::string five = "do do do do do";
  const auto cut = [&](std::size_t length, TruncationStrategy strategy, Side side = Side::right) {
    EncodeOptions options;
    options.truncation = {length, strategy, side};
    return tokenizer.encode({three, five}, options);
  };
  using enum TruncationStrategy;
  CHECK(cut(11, longest_first).truncated == 0);
  const Encoding nine = cut(9, longest_first);
  CHECK(nine.ids == Ids{2, 20, 20, 20, 3, 15, 15, 15, 3});
  CHECK(nine.truncated == 2);
  CHECK(cut(8, longest_first).ids == Ids{2, 20, 20, 3, 15, 15, 15, 3});
  CHECK(cut(3, longest_first).ids == Ids{2, 3, 3});
  CHECK(cut(9, only_first).ids == Ids{2, 20, 3, 15, 15, 15, 15, 15, 3});
  CHECK(cut(7, only_second, Side::left).offsets[6 - 1] == TextSpan{12, 14});
  CHECK(message_of<ValueError>([&] { cut(8, only_first); }) ==
        "truncation: 3 tokens are too many, but the first text, the only one to be shortened, has 3");
  CHECK(message_of<ValueError>([&] { cut(2, longest_first); }) ==
        "truncation: max_length is 2, but the special tokens alone are 3");
  EncodeOptions second;
  second.truncation = {3, only_second, Side::right};
  CHECK(message_of<ValueError>([&] { tokenizer.encode(three, second); }) ==
        "truncation: only the second text is to be shortened, but there is one text");
}

TEST_CASE("tokenizer: padding, to a length and to the longest") {
  const Tokenizer tokenizer = word_piece();
  EncodeOptions options;
  options.padding.emplace();
  options.padding->id = tokenizer.find("[PAD]");
  const std::vector<TextInput> texts{"hello", "do not", {"a", "a a"}};
  const std::vector<Encoding> batch = tokenizer.encode_batch(texts, options);
  CHECK(batch[0].ids == Ids{2, 9, 3, 0, 0, 0});
  CHECK(batch[0].attention_mask == Ids{1, 1, 1, 0, 0, 0});
  CHECK(batch[0].special_tokens_mask == Ids{1, 0, 1, 1, 1, 1});
  CHECK(batch[0].tokens.back() == "[PAD]");
  CHECK(batch[2].ids == Ids{2, 20, 3, 20, 20, 3});
  options.padding->side = Side::left;
  options.padding->multiple_of = 4;
  CHECK(tokenizer.encode("hello", options).ids == Ids{0, 2, 9, 3});
  options.padding->length = 5;
  CHECK(tokenizer.encode("hello", options).ids == Ids{0, 0, 0, 0, 0, 2, 9, 3});
  options.padding->id.reset();
  CHECK(message_of<ValueError>([&] { tokenizer.encode("hello", options); }) ==
        "padding: the tokenizer has no padding token; give the id of one");
  options.padding->id = 99;
  CHECK(message_of<ValueError>([&] { tokenizer.encode("hello", options); }) == "padding: there is no token of id 99");
}

TEST_CASE("tokenizer: a batch is what its texts are alone, and its error names the text") {
  const Tokenizer tokenizer = byte_pairs();
  std::vector<std::string> texts;
  for (int i = 0; i < 100; ++i) texts.push_back("hello " + std::string(static_cast<std::size_t>(i), 'a') + " \u00e9");
  std::vector<TextInput> inputs(texts.begin(), texts.end());
  std::size_t done = 0;
  EncodeOptions options;
  options.progress = [&](std::size_t bytes) { done = std::max(done, bytes); };
  const std::vector<Encoding> batch = tokenizer.encode_batch(inputs, options);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CHECK(batch[i].ids == tokenizer.encode(texts[i]).ids);
    bytes += texts[i].size();
  }
  CHECK(done == bytes);
  inputs[41] = TextInput("a\xFF");
  inputs[77] = TextInput("\xFF");
  CHECK(message_of<ValueError>([&] { tokenizer.encode_batch(inputs, {}); }) ==
        "input 41: encode: the text is not UTF-8 at byte 1 (0xff)");
}

TEST_CASE("tokenizer: decoding gives the text back") {
  const Tokenizer bytes = byte_pairs();
  for (const char* text : {"", "hello world", "  two  blanks \n", "\u4e2d \U0001f600 e\u0301", "<|end|>"})
    CHECK(bytes.decode(bytes.encode(text).ids) == text);
  const std::int64_t end = bytes.find("<|end|>").value();
  const Ids ids{static_cast<std::int64_t>('h'), end, 256};
  CHECK(bytes.decode(ids) == "hhe");
  CHECK(bytes.decode(ids, {.skip_special_tokens = false, .clean_up_spaces = {}}) == "h<|end|>he");
  const Tokenizer wordy = word_piece();
  CHECK(wordy.decode(wordy.encode("Unaffable, don't!").ids) == "unaffable, don ' t!"); // as HF: token by token
  CHECK(wordy.decode(wordy.encode("hello, do not").ids, {.skip_special_tokens = true, .clean_up_spaces = false}) ==
        "hello , do not");
  CHECK(wordy.decode(Ids{2, 9, 3}, {.skip_special_tokens = false, .clean_up_spaces = {}}) == "[CLS] hello [SEP]");
  CHECK(message_of<IndexError>([&] { wordy.decode(Ids{9, 30}); }) == "decode: there is no token of id 30");
  CHECK(message_of<IndexError>([&] { wordy.decode(Ids{-1}); }) == "decode: there is no token of id -1");
}

TEST_CASE("tokenizer: a stream of tokens never gives half a character") {
  const Tokenizer tokenizer = byte_pairs();
  const std::string text = "hello \u4e2d\U0001f600 e\u0301\u00e9";
  DecodeStream stream(tokenizer);
  std::string joined;
  std::size_t silent = 0;
  for (const std::int64_t id : tokenizer.encode(text).ids) {
    const std::string piece = stream.push(id);
    CHECK(find_invalid_utf8(piece) == std::string::npos);
    silent += piece.empty() ? 1U : 0U;
    joined += piece;
  }
  CHECK(joined + stream.finish() == text);
  CHECK(silent == 2 + 3 + 1); // within the characters of 3 and 4 bytes and U+0301; U+00E9 is one token
  CHECK(stream.push(tokenizer.find("\u00e4").value()).empty());
  CHECK(stream.finish() == "\uFFFD");
}

TEST_CASE("tokenizer: text that is not UTF-8 is refused with the place") {
  CHECK(message_of<ValueError>([] { byte_pairs().encode("abc\xC3("); }) ==
        "encode: the text is not UTF-8 at byte 3 (0xc3)");
  CHECK(message_of<ValueError>([] {
          word_piece().encode({"fine", "\xED\xA0\x80"});
        }) == "encode: the text is not UTF-8 at byte 0 (0xed)");
}

TEST_CASE("tokenizer: what it knows of its tokens") {
  const Tokenizer tokenizer = word_piece();
  CHECK(tokenizer.kind() == "WordPiece");
  CHECK(tokenizer.size() == 30);
  CHECK(tokenizer.id_end() == 30);
  CHECK(tokenizer.token(9) == "hello");
  CHECK(tokenizer.find("##aff") == 6);
  CHECK_FALSE(tokenizer.find("nothing").has_value());
  CHECK_FALSE(tokenizer.role("pad").has_value());
  CHECK(byte_pairs().kind() == "byte-level BPE");
  CHECK(byte_pairs().size() == 256 + 12 + 1);
}
