// Words that take quadratic time where nobody took care: time must grow like the size of the text.

#include "data/text/tokenizer.h"

#include "fuzz/tokenizer_samples.h"

#include <chrono>
#include <doctest/doctest.h>
#include <string>

using namespace eg::data;
using namespace eg::test;

namespace {

/// Tokens of the text, and the processor's seconds that they took (the best of two).
std::pair<std::size_t, double> timed(const Tokenizer& tokenizer, const std::string& text) {
  double best = 1e9;
  std::size_t tokens = 0;
  for (int round = 0; round < 2; ++round) {
    const std::clock_t begin = std::clock();
    tokens = tokenizer.encode(text).size();
    best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return {tokens, best};
}

std::string times(std::string_view piece, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += piece;
  return text;
}

/// Eight times the text must not take more than 24 times as long; a quadratic one takes 64 times.
void check_linear(const Tokenizer& tokenizer, std::string_view piece, std::size_t count) {
  CAPTURE(piece);
  const auto [few, short_time] = timed(tokenizer, times(piece, count / 8));
  const auto [many, long_time] = timed(tokenizer, times(piece, count));
  CHECK(many >= few);
  CHECK(long_time < 24 * std::max(short_time, 0.002));
  CHECK(long_time < 20.0);
}

} // namespace

TEST_CASE("tokenizer: a word of 1 MiB, 50,000 equal letters, and other long runs take linear time") {
  const std::size_t mebibyte = std::size_t{1} << 20U;
  for (const std::string& json : {word_piece_json(), byte_pair_json()}) {
    const Tokenizer tokenizer = Tokenizer::parse_json(json, "sample");
    check_linear(tokenizer, "a", mebibyte);
    check_linear(tokenizer, "a", 50'000);
    check_linear(tokenizer, "ab", mebibyte / 16);
    check_linear(tokenizer, "hello", mebibyte / 20);
    check_linear(tokenizer, " ", mebibyte / 4);
    check_linear(tokenizer, " \n", mebibyte / 16);
    check_linear(tokenizer, "\u0301", mebibyte / 16);
    check_linear(tokenizer, "\u0316\u0301", mebibyte / 16); // marks that must be put in order
    check_linear(tokenizer, "[SEP", mebibyte / 16);
    check_linear(tokenizer, "<|en", mebibyte / 16);
  }
}

TEST_CASE("tokenizer: the long words have the tokens that the short ones have") {
  const Tokenizer bytes = Tokenizer::parse_json(byte_pair_json(), "sample");
  const Encoding equal = bytes.encode(std::string(50'003, 'a'));
  CHECK(equal.size() == 50'000 / 4 + 2);
  CHECK(equal.tokens.front() == "aaaa");
  CHECK(equal.tokens[equal.size() - 2] == "aa");
  CHECK(equal.offsets.back() == TextSpan{50'002, 50'003});
  const Tokenizer words = Tokenizer::parse_json(word_piece_json(), "sample");
  const Encoding unknown = words.encode(std::string(std::size_t{1} << 20U, 'a'));
  CHECK(unknown.ids == std::vector<std::int64_t>{2, 1, 3});
  CHECK(unknown.offsets[1] == TextSpan{0, std::size_t{1} << 20U});
}
