// Text from files on one line that a terminal does not obey.

#include "core/base/words.h"

#include <doctest/doctest.h>

using eg::printable;

TEST_CASE("words: what is printed cannot steer a terminal or hide") {
  CHECK(printable("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80") == "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  CHECK(printable("a\x1b[31m\x07\x7f") == "a\\x1b[31m\\x07\\x7f");
  CHECK(printable(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(printable("two\nlines\n") == "two lines");
  CHECK(printable("\xC2\x9B\x33m") == "\\xc2\\x9b3m"); // C1: one character CSI
  CHECK(printable("a\xE2\x80\xAE"
                  "b") == "a\\xe2\\x80\\xaeb"); // right-to-left override
  CHECK(printable("a\xE2\x81\xA6"
                  "b") == "a\\xe2\\x81\\xa6b"); // isolate
  CHECK(printable("a\xE2\x80\x8B"
                  "b") == "a\\xe2\\x80\\x8bb");                            // no width
  CHECK(printable("a\xEF\xBB\xBF") == "a\\xef\\xbb\\xbf");                 // byte order mark
  CHECK(printable("\xFF\xC3") == "\\xff\\xc3");                            // not UTF-8
  CHECK(printable("\xC2\xA0\xE2\x80\xA8x") == "\xC2\xA0\\xe2\\x80\\xa8x"); // a space; a line end
}
