#include "support/laws.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("every declared symmetry holds forward") {
  laws::enforce(laws::symmetry_law, [](const OpDef& op) { return op.symmetries == nullptr; });
}

TEST_CASE("a symmetry says whether its indices have a say in each other") {
  laws::enforce(laws::mixing_law, [](const OpDef& op) { return laws::mixing_law(op).checked == 0; });
}
