#include "core/base/named_values.h"

#include "support/message.h"

#include <doctest/doctest.h>

using namespace eg;

namespace {

enum class Fruit { apple, pear, plum };

constexpr NamedValues<Fruit, 2> fruits{{{"apple", Fruit::apple}, {"pear", Fruit::pear}}};

} // namespace

TEST_CASE("named values: by name and back; other names and values have none") {
  CHECK(value_named(fruits, "fruit", "pear") == Fruit::pear);
  CHECK(name_in(fruits, Fruit::apple) == "apple");
  CHECK(name_in(fruits, Fruit::plum) == "?");
  CHECK(test::message_of<ValueError>([] { value_named(fruits, "fruit", "plum"); }) ==
        "fruit: 'plum' is not one of apple, pear");
  CHECK(test::message_of<ValueError>([] { value_named(fruits, "fruit", ""); }) ==
        "fruit: '' is not one of apple, pear");
}
