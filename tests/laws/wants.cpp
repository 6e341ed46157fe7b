#include "support/laws.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("every rule gives what was asked for and no more") {
  laws::enforce(laws::wants_law, [](const OpDef& op) { return op.vjp == nullptr; });
}
