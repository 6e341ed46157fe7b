#include "support/laws.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("every declared symmetry holds forward") {
  laws::enforce(laws::symmetry_law, [](const OpDef& op) { return op.symmetries == nullptr; });
}
