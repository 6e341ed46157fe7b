#include "cli/program.h"
#include "fuzz/tokenizer_samples.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

using namespace eg::test;
using nlohmann::json;

namespace {

/// A folder with the WordPiece sample, and one with the byte-level one.
struct Samples {
  Samples() {
    write_text(folder.path("words/tokenizer.json", true), word_piece_json());
    write_text(folder.path("bytes/tokenizer.json", true), byte_pair_json());
  }
  Outcome run(const std::string& name, std::vector<std::string> args) const {
    args.insert(args.begin(), {"tokenize", "--tokenizer", folder.path(name)});
    return run_program(args);
  }
  void refused(std::vector<std::string> args, const std::string& words) const {
    const Outcome got = run("words", std::move(args));
    INFO(got.err);
    CHECK(got.code == 2);
    CHECK(got.out.empty());
    CHECK(std::count(got.err.begin(), got.err.end(), '\n') == 1);
    CHECK(got.err.find(words) != std::string::npos);
  }
  TemporaryFolder folder;
};

} // namespace

TEST_CASE("tokenize gives the fields that others rely on") {
  const Samples samples;
  const Outcome got = samples.run("words", {"Unaffable, hello!", "--json", "-"});
  CHECK(got.code == 0);
  const json result = json::parse(got.out);
  CHECK(result["ids"] == json{2, 5, 6, 7, 11, 9, 13, 3});
  CHECK(result["tokens"] == json{"[CLS]", "un", "##aff", "##able", ",", "hello", "!", "[SEP]"});
  CHECK(result["offsets"][5] == json{11, 16});
  for (const char* field : {"byte_offsets", "type_ids", "attention_mask", "special_tokens_mask", "truncated"})
    CHECK(result.contains(field));
  const Outcome pair = samples.run("words", {"hello", "--pair", "world", "--json", "-", "--no-special-tokens"});
  CHECK(json::parse(pair.out)["type_ids"] == json{0, 1});
}

TEST_CASE("tokenize prints a token a line, and nothing that a terminal would obey") {
  const Samples samples;
  const Outcome got = samples.run("words", {"hello, world"});
  CHECK(got.out.find("       9  0-5            hello\n") != std::string::npos);
  CHECK(std::count(got.out.begin(), got.out.end(), '\n') == 6);
  CHECK(samples.run("words", {"hello", "--quiet"}).out.empty());
  CHECK(samples.run("words", {"--decode", "2,9,3"}).out == "[CLS] hello [SEP]\n");
  CHECK(samples.run("words", {"--decode", "2 9 3", "--no-special-tokens"}).out == "hello\n");
}

TEST_CASE("tokenize cuts, fills and recognises as it is told") {
  const Samples samples;
  const auto ids = [&](const std::string& name, std::vector<std::string> args) {
    args.insert(args.end(), {"--json", "-"});
    const Outcome got = samples.run(name, std::move(args));
    INFO(got.err);
    return json::parse(got.out)["ids"];
  };
  CHECK(ids("words", {"a a a a", "--max-length", "4"}) == json{2, 20, 20, 3});
  CHECK(ids("words", {"a do", "--max-length", "3", "--truncation-side", "left"}) == json{2, 15, 3});
  CHECK(ids("words", {"a", "--pad-to", "5", "--pad-token", "[PAD]"}) == json{2, 20, 3, 0, 0});
  CHECK(ids("words", {"a", "--pad-to", "4", "--pad-token", "[PAD]", "--padding-side", "left"}) == json{0, 2, 20, 3});
  CHECK(ids("bytes", {"<|end|>"}).size() == 7);
  CHECK(ids("bytes", {"<|end|>", "--recognise-special"}) == json{268});
}

TEST_CASE("tokenize changes only what is given of the cutting and filling that tokenizer.json asks for") {
  const Samples samples;
  json whole = json::parse(word_piece_json());
  whole["truncation"] = {{"direction", "Left"}, {"max_length", 3}, {"strategy", "OnlySecond"}, {"stride", 0}};
  whole["padding"] = {{"strategy", {{"Fixed", 9}}}, {"direction", "Left"},  {"pad_to_multiple_of", 8}, {"pad_id", 4},
                      {"pad_type_id", 1},           {"pad_token", "[MASK]"}};
  write_text(samples.folder.path("asks/tokenizer.json", true), whole.dump());
  const auto run = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"--json", "-"});
    const Outcome got = samples.run("asks", std::move(args));
    INFO(got.err);
    REQUIRE(got.code == 0);
    return json::parse(got.out);
  };
  const json padded = run({"a", "--max-length", "9", "--pad-to", "5"});
  CHECK(padded["ids"] == json{4, 4, 2, 20, 3}); // on the left, with [MASK], and not up to a multiple of 8
  CHECK(padded["type_ids"] == json{1, 1, 0, 0, 0});
  CHECK(run({"a", "--max-length", "9", "--pad-to", "5", "--padding-side", "right"})["ids"] == json{2, 20, 3, 4, 4});
  CHECK(run({"a", "--max-length", "9", "--pad-to", "5", "--pad-token", "[PAD]"})["ids"] == json{0, 0, 2, 20, 3});
  const json cut = run({"a", "--pair", "do a", "--max-length", "5", "--pad-to", "1"});
  CHECK(cut["ids"] == json{2, 20, 3, 20, 3}); // the second text, on the left
  CHECK(run({"a a", "--pair", "do", "--max-length", "5", "--truncation", "only_first", "--pad-to", "1"})["ids"] ==
        json{2, 20, 3, 15, 3});
}

TEST_CASE("tokenize reads standard input") {
  const Samples samples;
  write_text(samples.folder.path("in"), "hello");
  const int kept = dup(STDIN_FILENO);
  const int file = open(samples.folder.path("in").c_str(), O_RDONLY | O_CLOEXEC);
  dup2(file, STDIN_FILENO);
  const Outcome got = samples.run("words", {"--file", "-", "--json", "-"});
  dup2(kept, STDIN_FILENO);
  close(kept);
  close(file);
  CHECK(json::parse(got.out)["ids"] == json{2, 9, 3});
}

TEST_CASE("tokenize: decoded text on a terminal") {
  const Samples samples;
  const std::vector<std::string> args = {"tokenize", "--tokenizer", samples.folder.path("bytes"), "--decode",
                                         "27,91,50,74"};
  const std::string raw = run_program(args).out;
  CHECK(raw == "\x1b[2J\n");
  CHECK(run_program_on_terminal(args, 80, OnTerminal::out) == "\\x1b[2J\r\n");
}

TEST_CASE("tokenize answers lines of JSON with lines of JSON") {
  const Samples samples;
  const std::string path = samples.folder.path("in.jsonl");
  write_text(path, "\"hello\"\n[\"a\", \"do\"]\n{\"ids\": [2, 9, 3]}\n");
  const Outcome got = samples.run("words", {"--file", path, "--lines"});
  INFO(got.err);
  CHECK(got.code == 0);
  CHECK(std::count(got.out.begin(), got.out.end(), '\n') == 3);
  CHECK(json::parse(got.out.substr(0, got.out.find('\n')))["ids"] == json{2, 9, 3});
  CHECK(got.out.ends_with("{\"text\":\"[CLS] hello [SEP]\"}\n"));
  write_text(path, "{\"text\": \"hello\", \"label\": 1}\n{\"text\": \"a\", \"pair\": \"do\"}\n");
  const Outcome objects = samples.run("words", {"--file", path, "--lines"});
  CHECK(json::parse(objects.out.substr(0, objects.out.find('\n')))["ids"] == json{2, 9, 3});
  CHECK(objects.out.find("\"ids\":[2,20,3,15,3]") != std::string::npos);
  for (const auto& [line, words] : {std::pair{"7", "line 2: is neither"},
                                    {"{\"text\": 7}", "line 2: is neither"},
                                    {"{\"text\": \"a\", \"ids\": [1]}", "line 2: is neither"},
                                    {"{\"ids\": [1,]}", "line 2: malformed JSON at column 12: "},
                                    {"", "line 2: is empty"}}) {
    write_text(path, std::string("\"hello\"\n") + line + "\n");
    const Outcome wrong = samples.run("words", {"--file", path, "--lines"});
    CHECK(wrong.code == 2);
    CHECK_MESSAGE(wrong.err.find(path + ": " + words) != std::string::npos, wrong.err);
  }
}

TEST_CASE("tokenize reads a file, and shows how far it is on a terminal") {
  const Samples samples;
  const std::string path = samples.folder.path("text");
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += "hello world, a do not\n";
  write_text(path, text);
  const Outcome got = samples.run("words", {"--file", path, "--json", samples.folder.path("out.json"), "--quiet"});
  CHECK(got.code == 0);
  CHECK(got.err.empty());
  CHECK(json::parse(read_text(samples.folder.path("out.json")))["ids"].size() == 40'000 * 6 + 2);
  const std::string shown = run_program_on_terminal(
      {"tokenize", "--tokenizer", samples.folder.path("words"), "--file", path, "--json", samples.folder.path("o")},
      80);
  CHECK(shown.find(" MB") != std::string::npos);
  write_text(path, "abc\xFFz");
  samples.refused({"--file", path}, path + ": is not UTF-8 at byte 3 (0xff)");
}

TEST_CASE("tokenize refuses what is wrong in one line") {
  const Samples samples;
  samples.refused({}, "give one of TEXT, --file and --decode");
  samples.refused({"a", "--decode", "1"}, "give one of TEXT, --file and --decode");
  samples.refused({"--decode", "1,x"}, "--decode: '1,x' is not a list like 1,2,3 or '1 2 3'");
  samples.refused({"--decode", "999"}, "decode: there is no token of id 999");
  samples.refused({"a", "--lines"}, "--lines has no effect: there is no --file");
  samples.refused({"a", "--truncation", "only_first"}, "--truncation has no effect: there is no --max-length");
  samples.refused({"a", "--pad-token", "[PAD]"}, "--pad-token has no effect: there is no --pad-to");
  samples.refused({"a", "--pad-to", "4"}, "--pad-to: the tokenizer's files name no padding token; --pad-token does");
  samples.refused({"a", "--pad-to", "4", "--pad-token", "x"}, "--pad-token: there is no token 'x'");
  samples.refused({"a", "--max-length", "1"}, "truncation: max_length is 1, but the special tokens alone are 2");
  samples.refused({"--decode", "1", "--pair", "b"}, "--pair has no effect: ids are decoded");
  const Outcome nowhere = run_program({"tokenize", "--tokenizer", "no/such", "a"});
  CHECK(nowhere.code == 2);
  CHECK(nowhere.err == "equigrad: no/such: no such file or folder\n");
  CHECK(run_program({"tokenize", "a"}).err.find("--tokenizer is required") != std::string::npos);
}
