#include "support/laws.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("every rule's own gradient agrees with central differences") {
  laws::enforce(laws::second_derivative_law, [](const OpDef& op) { return !has_gradient(op); });
}
