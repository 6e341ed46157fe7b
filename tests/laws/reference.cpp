#include "support/laws.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("every kernel agrees with its plain loops") { laws::enforce(laws::reference_law); }
