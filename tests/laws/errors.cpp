#include "support/laws.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("bad calls are refused with the promised words") { laws::enforce(laws::errors_law); }
