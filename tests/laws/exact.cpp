#include "support/laws.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("in exact mode every symmetry holds bit for bit") {
  laws::enforce(laws::exact_law, [](const OpDef& op) { return op.symmetries == nullptr && op.exact == nullptr; });
}
