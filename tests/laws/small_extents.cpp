#include "support/laws.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("axes of extent 1 and 0 give the right result or a clear refusal") {
  laws::enforce(laws::small_extent_law, [](const OpDef& op) { return op.symmetries == nullptr; });
}
