#include "support/laws.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("f32 agrees with f64") { laws::enforce(laws::dtype_law); }
