// Patterns and lists of words.

#include "core/words.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("words: a star stands for any characters, a question mark for one") {
  CHECK(glob_match("eq7*", "eq76-q"));
  CHECK(glob_match("*", ""));
  CHECK(glob_match("e?7", "eq7"));
  CHECK(glob_match("*w*1", "eq77-w1"));
  CHECK_FALSE(glob_match("eq7", "eq76"));
  CHECK_FALSE(glob_match("?", ""));
}

TEST_CASE("words: lists are cut at commas") {
  CHECK(words_of_list(" a, b c ,,d ") == std::vector<std::string>{"a", "b c", "d"});
  CHECK(words_of_list("").empty());
  CHECK(words_of_list(" , ").empty());
}
