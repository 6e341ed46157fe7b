#include "support/laws.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("a row without a rule refuses a gradient and says why") {
  laws::enforce(laws::no_gradient_law, [](const OpDef& op) { return has_gradient(op); });
}
