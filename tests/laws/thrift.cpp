#include "support/laws.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("the tape keeps nothing that no rule reads") {
  laws::enforce(laws::saves_only_what_is_read, [](const OpDef& op) { return op.saves == saves::nothing; });
}
