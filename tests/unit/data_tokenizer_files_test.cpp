// Tokenizer files: what is opened, and what is refused with which words.

#include "data/text/tokenizer.h"

#include "data_fixtures.h"
#include "fuzz/tokenizer_samples.h"

#include <doctest/doctest.h>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

using Ids = std::vector<std::int64_t>;

std::string refusal(const std::string& json) {
  return message_of<FileError>([&] { Tokenizer::parse_json(json, "t"); });
}

/// What is said of the sample with a part replaced.
std::string word_piece_with(const std::string& from, const std::string& to) {
  return refusal(replaced(word_piece_json(), from, to));
}
std::string byte_pair_with(const std::string& from, const std::string& to) {
  return refusal(replaced(byte_pair_json(), from, to));
}

const std::string byte_level = R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";

std::string split_with(const std::string& expression) {
  return R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":")" + expression +
         R"("},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})";
}

const std::string llama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";

} // namespace

TEST_CASE("tokenizer files: parts that are not supported are refused by name") {
  CHECK(word_piece_with(R"("type":"BertNormalizer")", R"("type":"NFKC")") ==
        "t: normalizer: type 'NFKC' is not supported; BertNormalizer and NFC are");
  CHECK(word_piece_with(R"("clean_text")", R"("wash_text")") == "t: normalizer: field 'wash_text' is not supported");
  CHECK(word_piece_with("BertPreTokenizer", "Whitespace") ==
        "t: pre_tokenizer: type 'Whitespace' is not supported for WordPiece; BertPreTokenizer is");
  CHECK(word_piece_with("TemplateProcessing", "Magic")
            .starts_with("t: post_processor: type 'Magic' is not supported; TemplateProcessing, "));
  CHECK(word_piece_with(R"("decoder":{"type":"WordPiece")", R"("decoder":{"type":"Metaspace")") ==
        "t: decoder: type 'Metaspace' is not supported; WordPiece and ByteLevel are");
  CHECK(word_piece_with(R"("model":{"type":"WordPiece")", R"("model":{"type":"Unigram")") ==
        "t: model: type 'Unigram' is not supported; WordPiece and BPE are");
  CHECK(word_piece_with(R"("version")", R"("verse")") == "t: field 'verse' is not supported");
  CHECK(byte_pair_with(R"("dropout":null)", R"("dropout":0.1)") ==
        "t: model: 'dropout' is not supported for BPE on bytes");
  CHECK(byte_pair_with(R"("end_of_word_suffix":"")", R"("end_of_word_suffix":"</w>")") ==
        "t: model: 'end_of_word_suffix' is not supported for BPE on bytes");
  CHECK(byte_pair_with(R"("byte_fallback":false)", R"("byte_fallback":true)") ==
        "t: model: 'byte_fallback' is not supported for BPE on bytes");
  CHECK(byte_pair_with(byte_level, R"({"type":"Metaspace"})")
            .starts_with("t: pre_tokenizer: type 'Metaspace' is not supported for BPE; ByteLevel"));
  CHECK(byte_pair_with(byte_level, split_with("[a-z]+")) == "t: pre_tokenizer: pretokenizers: the expression [a-z]+ is "
                                                            "not supported; those of GPT-2, Llama 3 and Qwen 2 are");
  CHECK(byte_pair_with(R"("normalizer":null)", R"("normalizer":{"type":"BertNormalizer"})") ==
        "t: a BertNormalizer is not supported for BPE");
  CHECK(word_piece_with(R"("truncation":null)",
                        R"("truncation":{"max_length":8,"strategy":"LongestFirst","stride":2})") ==
        "t: truncation: a stride other than 0 is not supported");
}

TEST_CASE("tokenizer files: damaged ones get one clear message") {
  CHECK(refusal("[]") == "t: is not a JSON object");
  CHECK(refusal("{}") == "t: has no 'model'");
  CHECK(refusal("{").starts_with("t: malformed JSON at line 1"));
  CHECK(word_piece_with(R"("un":5)", R"("un":5,"un":31)") == "t: JSON key 'un' is given twice");
  CHECK(word_piece_with(R"("un":5)", R"("un":6)") == "t: model: vocab: id 6 is given to both '##aff' and 'un'");
  CHECK(word_piece_with(R"("un":5)", R"("un":-5)") ==
        "t: model: vocab: the id of 'un' is not a whole number from 0 on");
  CHECK(word_piece_with(R"("un":5)", R"("un":4000000000)") ==
        "t: model: vocab: id 4000000000 of token 'un' is out of proportion to the 30 tokens");
  CHECK(word_piece_with(R"("unk_token":"[UNK]")", R"("unk_token":"[unknown]")") ==
        "t: model: the vocabulary lacks the unknown token '[unknown]'");
  CHECK(word_piece_with(R"({"id":4,"content":"[MASK]")", R"({"id":9,"content":"[MASK]")") ==
        "t: added_tokens: '[MASK]' has id 9, but in the vocabulary it has 4");
  CHECK(word_piece_with(R"({"id":4,"content":"[MASK]")", R"({"id":9,"content":"[NEW]")") ==
        "t: added_tokens: '[NEW]' has id 9, but in the vocabulary that is 'hello'");
  CHECK(word_piece_with(R"({"id":4,"content":"[MASK]")", R"({"id":3,"content":"[SEP]")") ==
        "t: added_tokens: '[SEP]' is there twice");
  CHECK(word_piece_with(R"("ids":[2])", R"("ids":[77])") ==
        "t: post_processor: special_tokens: [CLS]: speaks of id 77, which is no token's");
  CHECK(word_piece_with(R"("ids":[2])", R"("ids":[2,3])") ==
        "t: post_processor: special_tokens: [CLS]: has not as many ids as tokens");
  CHECK(word_piece_with(R"({"Sequence":{"id":"B","type_id":1}})", R"({"Sequence":{"id":"A","type_id":1}})") ==
        "t: post_processor: 'pair' does not hold A and B exactly once");
  CHECK(byte_pair_with(R"(["h","e"])", R"(["h","x"])") ==
        "t: model: merge 1 ('h x'): token 'hx' is not in the vocabulary");
  CHECK(byte_pair_with(R"("merges":[)", R"("merges":["h  e",)") == "t: model: merge 1 is not two tokens");
  CHECK(byte_pair_with(R"("content":"<|end|>")", R"("content":"!")")
            .starts_with("t: added_tokens: '!' has id 268, but in the vocabulary it has 33"));
}

TEST_CASE("tokenizer files: special tokens that text could spell are refused") {
  const std::string spelt =
      replaced(byte_pair_json(), R"({"id":268,"content":"<|end|>")", R"({"id":259,"content":"hello")");
  CHECK(refusal(spelt) == "t: model: merge 4 ('hell o') makes the special token 'hello', so that text could spell it");
}

TEST_CASE("tokenizer files: truncation, padding and patterns of tokenizer.json are honoured") {
  std::string json =
      replaced(word_piece_json(), R"("truncation":null)",
               R"("truncation":{"direction":"Left","max_length":4,"strategy":"LongestFirst","stride":0})");
  json = replaced(
      json, R"("padding":null)",
      R"("padding":{"strategy":{"Fixed":6},"direction":"Left","pad_to_multiple_of":null,"pad_id":0,"pad_type_id":0,"pad_token":"[PAD]"})");
  const Tokenizer tokenizer = Tokenizer::parse_json(json, "t");
  CHECK(tokenizer.encode("a do hello").ids == Ids{0, 0, 2, 15, 9, 3});
  CHECK(tokenizer.encode("a do hello", {}).ids == Ids{2, 20, 15, 9, 3});
  CHECK(tokenizer.role("pad") == 0);
  CHECK(refusal(replaced(json, R"("Fixed":6)", R"("Fixed":60000000000)")) == "t: padding: more than 1048576 tokens");
  CHECK(refusal(replaced(json, R"("pad_token":"[PAD]")", R"("pad_token":"hello")")) ==
        "t: padding: pad_id 0 is not the id of pad_token 'hello'");
}

TEST_CASE("tokenizer files: each known pattern splits in its own way") {
  // Words that are tokens become them, so that the words show.
  std::string sample = replaced(byte_pair_json(), R"("ignore_merges":false)", R"("ignore_merges":true)");
  sample =
      replaced(sample, R"("vocab":{)", R"("vocab":{"'S":300,"123":301,"\u010a\u010a":302,"!\u010a":303,"\u0120":304,)");
  sample = replaced(sample, R"(,"\u0120":32,)", ",");
  const auto count = [&](const std::string& pattern, const char* text) {
    return Tokenizer::parse_json(replaced(sample, byte_level, pattern), "t").encode(text).size();
  };
  const std::string qwen2 = replaced(llama3, "{1,3}", "");
  CHECK(count(split_with(llama3), "HE'S") == 3); // contractions in any case
  CHECK(count(split_with(qwen2), "HE'S") == 3);
  CHECK(count(byte_level, "HE'S") == 4);
  CHECK(count(split_with(llama3), "12345") == 3); // digits by threes
  CHECK(count(split_with(qwen2), "12345") == 5);
  CHECK(count(byte_level, "12345") == 5);
  CHECK(count(split_with(llama3), "!\n") == 1); // line ends go with punctuation
  CHECK(count(byte_level, "!\n") == 2);
  CHECK(count(split_with(llama3), "\n\n a") == 3); // and stand apart from blanks
  CHECK(count(byte_level, "\n\n a") == 3);
}

TEST_CASE("tokenizer files: vocab.txt with and without configuration") {
  const TemporaryFolder folder;
  const std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nna\u00efve\nnaive\nNaive\n";
  write_file(folder.path("vocab.txt"), std::string_view(vocab));
  const Tokenizer plain = Tokenizer::open(folder.path());
  CHECK(plain.encode("Na\u00efve").ids == Ids{2, 6, 3});
  CHECK(plain.role("mask") == 4);
  CHECK(plain.is_special(0));
  write_file(
      folder.path("tokenizer_config.json"),
      std::string_view(R"({"do_lower_case":false,"tokenizer_class":"BertTokenizerFast","model_max_length":512})"));
  CHECK(Tokenizer::open(folder.path("vocab.txt")).encode("Naive na\u00efve").ids == Ids{2, 7, 5, 3});
  write_file(folder.path("tokenizer_config.json"), std::string_view(R"({"tokenizer_class":"T5Tokenizer"})"));
  CHECK(message_of<FileError>([&] { Tokenizer::open(folder.path()); }) ==
        folder.path("tokenizer_config.json") +
            ": tokenizer_class 'T5Tokenizer' is not supported without a tokenizer.json");
  write_file(folder.path("tokenizer_config.json"), std::string_view(R"({"pad_token":"[FILL]"})"));
  CHECK(message_of<FileError>([&] { Tokenizer::open(folder.path()); }) ==
        folder.path("tokenizer_config.json") + ": special token '[FILL]' is not in the vocabulary");
  write_file(folder.path("tokenizer_config.json"),
             std::string_view(R"({"added_tokens_decoder":{"8":{"content":"<new>","lstrip":true,"normalized":false,
             "rstrip":false,"single_word":false,"special":false}},"pad_token":{"content":"[MASK]"}})"));
  const Tokenizer more = Tokenizer::open(folder.path());
  CHECK(more.encode("naive <new>naive").ids == Ids{2, 6, 8, 6, 3});
  CHECK(more.encode("naive <new>").tokens[2] == " <new>");
  CHECK(more.role("pad") == 4);
  CHECK(more.id_end() == 9);
}

TEST_CASE("tokenizer files: damaged vocab.txt, vocab.json and merges.txt") {
  const TemporaryFolder folder;
  const auto opened = [&] { return message_of<FileError>([&] { Tokenizer::open(folder.path()); }); };
  const auto write = [&](const char* name, std::string_view text) { write_file(folder.path(name), text); };
  CHECK(opened() == folder.path() + ": has no tokenizer.json, vocab.txt, or vocab.json with merges.txt");
  write("tokenizer.model", "");
  CHECK(opened().find("SentencePiece models are not supported") != std::string::npos);
  const std::string vocab = folder.path("vocab.txt");
  write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\nword\n[CLS]\n");
  CHECK(opened() == vocab + ": token '[CLS]' is there twice, as 1 and 4");
  write("vocab.txt", "[UNK]\n\n[CLS]\n");
  CHECK(opened() == vocab + ": line 2 is empty");
  write("vocab.txt", "[UNK]\n\xFF\n");
  CHECK(opened() == vocab + ": is not UTF-8 at byte 6");
  write("vocab.txt", "[CLS]\n[SEP]\n");
  CHECK(opened() == vocab + ": the vocabulary lacks the unknown token '[UNK]'");
  write("vocab.txt", "[UNK]\n[SEP]\n");
  CHECK(opened() == vocab + ": the vocabulary lacks the token for cls");
  write("vocab.txt", "[UNK]\r\n[CLS]\r\n[SEP]\r\nword");
  CHECK(Tokenizer::open(folder.path()).encode("word").ids == Ids{1, 3, 2});
  const auto added = [&](const std::string& json) {
    write("added_tokens.json", json);
    return opened();
  };
  const std::string front = folder.path("added_tokens.json") + ": ";
  CHECK(added("{\"" + std::string(4097, 'a') + "\": 7}") == front + "a token of 4097 bytes; 1 to 4096 are supported");
  CHECK(added(R"({"x": 7, "y": 7})") == front + "id 7 is there twice");
  CHECK(added(R"({"x": 3})") == front + "'x' has id 3, but in the vocabulary that is 'word'");
  CHECK(added(R"({"word": 9})") == front + "'word' has id 9, but in the vocabulary it has 3");
  CHECK(message_of<FileError>([&] { Tokenizer::open(folder.path("nothing")); }) ==
        folder.path("nothing") + ": no such file or folder");
}

TEST_CASE("tokenizer files: vocab.json and merges.txt") {
  const TemporaryFolder folder;
  const std::string json = byte_pair_json();
  const std::size_t begin = json.find(R"("vocab":)") + 8;
  const std::string vocab = json.substr(begin, json.find(R"(,"merges")", begin) - begin);
  write_file(folder.path("vocab.json"), std::string_view(vocab));
  CHECK(message_of<FileError>([&] { Tokenizer::open(folder.path()); }) ==
        folder.path("merges.txt") + ": cannot open: No such file or directory");
  write_file(folder.path("merges.txt"), std::string_view("#version: 0.2\nh e\nl l\nhe ll\nhell o\n"));
  const Tokenizer tokenizer = Tokenizer::open(folder.path());
  CHECK(tokenizer.encode("hello world").tokens == std::vector<std::string>{"hello", "\u0120", "w", "o", "r", "l", "d"});
  CHECK(tokenizer.decode(tokenizer.encode("hello\n").ids) == "hello\n");
  const auto opened = [&](std::string_view merges) {
    write_file(folder.path("merges.txt"), merges);
    return message_of<FileError>([&] { Tokenizer::open(folder.path("vocab.json")); });
  };
  const std::string merges = folder.path("merges.txt");
  CHECK(opened("h e\nhe\n") == merges + ": line 2 is not two tokens with a blank between them");
  CHECK(opened("h e x\n") == merges + ": line 1 is not two tokens with a blank between them");
  CHECK(opened("h e\nh e\n") == merges + ": merge 2 ('h e') is there twice");
  CHECK(opened("h z\n") == merges + ": merge 1 ('h z'): token 'hz' is not in the vocabulary");
  write_file(folder.path("vocab.json"), std::string_view(R"({"h":0,"e":1})"));
  CHECK(opened("h e\n").starts_with(merges + ": the vocabulary lacks the token '"));
}
