#include "support/laws.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("strided, shifted and repeated inputs give the bits of packed ones") { laws::enforce(laws::layout_law); }
