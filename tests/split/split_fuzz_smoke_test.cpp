// A moment of fuzzing; longer runs: tests/fuzz.

#include "fuzz/split_damage.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("split fuzz: damaged messages are answered, and harm nothing") {
  RandomStream random({7, 0});
  for (int i = 0; i < 600; ++i) CHECK_NOTHROW(fuzz::one_damaged_round(random));
}
