#include "support/laws.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("an element's value does not depend on where it lies") {
  laws::enforce(laws::placement_law, [](const OpDef& op) { return !laws::has_exact_axes(op); });
}
