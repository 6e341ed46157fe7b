#include "controls.h"

using namespace eg;

TEST_CASE("a rule that adds to a sum gives what the ordinary rule gives") {
  laws::enforce(laws::adding_law, [](const OpDef& op) { return op.adding_vjp == nullptr; });
}

TEST_CASE("an adding rule that is wrong is caught") {
  laws::must_accept(laws::adding_law, "embedding");
  laws::must_catch(laws::adding_law, "an adding rule that adds nothing",
                   laws::spoiled("embedding", [](OpDef& op) { op.adding_vjp = [](const AddingVjp&) {}; }));
}
