#include "core/registry.h"
#include "support/laws.h"

#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

using namespace eg;

TEST_CASE("every row has all its parts and they fit together") { laws::enforce(laws::completeness_law); }

TEST_CASE("names are unique and find their rows") {
  std::set<std::string_view> names;
  for (const OpDef* op : registry()) {
    CHECK_MESSAGE(names.insert(op->name).second, std::string(op->name));
    CHECK(&find_op(op->name) == op);
  }
  CHECK_THROWS_WITH_AS(find_op("sofmax"), doctest::Contains("did you mean 'softmax'?"), ValueError);
}

TEST_CASE("every row but the backward ones has a function of its name") {
  std::ifstream file(std::string(EQUIGRAD_SOURCE_DIR) + "/core/ops.h");
  std::stringstream text;
  text << file.rdbuf();
  const std::string header = text.str();
  REQUIRE_FALSE(header.empty());
  for (const OpDef* op : registry()) {
    const std::string name(op->name);
    // `permute` and `std` name namespaces.
    const std::string function = name == "permute" ? "permute_axes" : name == "std" ? "std_deviation" : name;
    // Backward rows are called by rules alone.
    CHECK_MESSAGE((header.find(" " + function + "(") != std::string::npos) != is_backward(*op), name);
  }
}
