#include "support/laws.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("every rule agrees with central differences") {
  laws::enforce(laws::gradient_law, [](const OpDef& op) { return !has_gradient(op); });
}
