// The laws of gradients on a device, for every row: differences, second derivatives, what a rule reads and gives.

#include "device/every_row.h"

using namespace eg;

TEST_CASE("gradients on the device agree with differences") { test::enforce_on_device(laws::gradient_law); }
TEST_CASE("gradients on the device can be differentiated") { test::enforce_on_device(laws::second_derivative_law); }
TEST_CASE("rules on the device compute what is wanted") { test::enforce_on_device(laws::wants_law); }
TEST_CASE("rules on the device read what the row saves") { test::enforce_on_device(laws::saves_only_what_is_read); }
TEST_CASE("rules that add to a sum do so on the device") { test::enforce_on_device(laws::adding_law); }
