// The symmetries on a device, for every row, forward and backward, and where an index lies.

#include "device/every_row.h"

using namespace eg;

TEST_CASE("every symmetry holds on the device") { test::enforce_on_device(laws::symmetry_law); }
TEST_CASE("every symmetry holds in the gradients on the device") {
  test::enforce_on_device(laws::backward_symmetry_law);
}
TEST_CASE("an index has its bits on the device wherever it lies") { test::enforce_on_device(laws::placement_law); }
TEST_CASE("large inputs and offsets on the device") {
  test::enforce_on_device(laws::offset_law);
  test::enforce_on_device(laws::large_law);
}
