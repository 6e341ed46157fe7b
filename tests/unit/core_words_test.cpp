// Patterns and lists of words.

#include "core/base/words.h"

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

TEST_CASE("words: a count agrees with its noun") {
  CHECK(count_of(1, "run") == "1 run");
  CHECK(count_of(0, "run") == "0 runs");
  CHECK(count_of(2, "run") == "2 runs");
}
