#include "support/laws.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("every declared symmetry holds for the vector-Jacobian product") {
  laws::enforce(laws::backward_symmetry_law,
                [](const OpDef& op) { return op.symmetries == nullptr || !has_gradient(op); });
}
