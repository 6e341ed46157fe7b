// The fuzz target for model folders with bytes that a seed gives, so that every build runs it for a moment.

#include "core/random.h"
#include "fuzz/model_folder.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("fuzz: model folders with a changed config are read or refused") {
  fuzz::model_folder(Bytes{0});
  RandomStream random({.seed = 20261121, .stream = 0});
  for (int round = 0; round < 400; ++round) {
    Bytes bytes(static_cast<std::size_t>(3 + 2 * random.below(3)));
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
    CAPTURE(round);
    CHECK_NOTHROW(fuzz::model_folder(bytes));
  }
}
