#include "core/base/utf8.h"

#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace eg;

namespace {

/// The text given to a stream in pieces of `size` bytes.
std::string streamed(const std::string& text, std::size_t size) {
  Utf8Stream stream;
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += size) {
    const std::string piece = stream.push(std::string_view(text).substr(at, size));
    CHECK(find_invalid_utf8(piece) == std::string::npos);
    out += piece;
  }
  return out + stream.finish();
}

} // namespace

TEST_CASE("utf8: sizes and what is not UTF-8") {
  CHECK(utf8_size("a") == 1);
  CHECK(utf8_size("é!") == 2);
  CHECK(utf8_size("中") == 3);
  CHECK(utf8_size("😀") == 4);
  for (const char* wrong :
       {"", "\x80", "\xC3", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE4\xB8", "\xE4\xB8z"})
    CHECK(utf8_size(wrong) == 0);
  CHECK(find_invalid_utf8("") == std::string::npos);
  CHECK(find_invalid_utf8("plain text of more than eight bytes, é中😀") == std::string::npos);
  CHECK(find_invalid_utf8("plain text of more than eight bytes\xFF") == 35);
  CHECK(find_invalid_utf8("aé\xE4\xB8") == 3);
}

TEST_CASE("utf8: appended characters are those that were meant") {
  std::string text;
  for (const char32_t c : {0x0U, 0x7FU, 0x80U, 0x7FFU, 0x800U, 0xD7FFU, 0xE000U, 0xFFFFU, 0x10000U, 0x10FFFFU})
    append_utf8(text, c);
  const std::string expected("\0\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF\xF0\x90\x80\x80"
                             "\xF4\x8F\xBF\xBF",
                             26);
  CHECK(text == expected);
}

TEST_CASE("utf8: a stream gives whole characters, however its bytes are cut") {
  const std::string good = "plain text, é中😀 and more\n";
  for (std::size_t size = 1; size < 9; ++size) CHECK(streamed(good, size) == good);
}

TEST_CASE("utf8: wrong bytes become U+FFFD, one for each longest front of a character") {
  const std::string r = "\uFFFD";
  // The Unicode Standard, table 3-8 and the text before it.
  const std::vector<std::vector<std::string>> cases{
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", r + r + r + r + r + r + r + r + "A"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", r + r + r + r + r + r + r + r + "A"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", r + r + r + r + r + "A" + r + r + "B"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", r + r + r + r + "A"},
      {"é\xC3", "é" + r},
      {"\xF0\x9F\x98", r},
  };
  for (const auto& one : cases)
    for (std::size_t size = 1; size < 10; ++size) CHECK(streamed(one[0], size) == one[1]);
}

TEST_CASE("utf8: a stream begins anew after its end") {
  Utf8Stream stream;
  CHECK(stream.push("\xC3").empty());
  CHECK(stream.finish() == "\uFFFD");
  CHECK(stream.push("\xA9") == "\uFFFD");
  CHECK(stream.finish().empty());
}
