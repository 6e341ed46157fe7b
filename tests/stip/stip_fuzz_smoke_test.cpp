// A moment of fuzzing; longer runs: tests/fuzz.

#include "fuzz/damage.h"
#include "fuzz/stip_targets.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("stip fuzz: damaged messages are answered, and harm nobody's text") {
  RandomStream random({8, 0});
  const std::vector<Bytes> samples = fuzz::stip_samples();
  for (int i = 0; i < 600; ++i) CHECK_NOTHROW(fuzz::stip_service(fuzz::damaged_row(samples, random)));
}
