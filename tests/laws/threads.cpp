#include "support/laws.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("1, 2 and 3 threads give the same bits") { laws::enforce(laws::threads_law); }
