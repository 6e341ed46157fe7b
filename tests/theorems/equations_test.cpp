// Every number of the papers leads to rows of the catalogue or to a reason why there is none: docs/equations.md.

#include "core/base/error.h"
#include "permute/catalogue/catalogue.h"
#include "permute/catalogue/equations.h"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fstream>
#include <sstream>

namespace {

using namespace eg::permute;

std::string page_of(const std::vector<NumberedEquation>& equations) {
  std::string page =
      "# Numbered equations\n\nEvery numbered equation of the papers, by the name that `equigrad verify --filter` "
      "takes: the rows of "
      "[the catalogue](catalogue.md) that\ncheck it, or why there is none. A step of a derivation has the row that "
      "compares "
      "its two ends. `eq` is [P], `s1-eq` is [S], `stip-eq` is [T].\nThe tests write this page.\n\n"
      "| equation | rows, or why there is none |\n|---|---|\n";
  for (const NumberedEquation& e : equations) {
    std::string rows;
    for (const std::string& id : e.ids) rows += fmt::format("{}`{}`", rows.empty() ? "" : ", ", id);
    page += fmt::format("| `{}` | {} |\n", e.name, rows.empty() ? "none: " + e.reason : rows);
  }
  return page;
}

TEST_CASE("equations: each number has rows or a reason, and a filter finds them") {
  CHECK(numbered_equations().size() == 88 + 100 + 5);
  for (const NumberedEquation& equation : numbered_equations()) {
    CAPTURE(equation.name);
    CHECK(equation.ids.empty() != equation.reason.empty());
    std::vector<std::string> found;
    for (const Identity& identity : catalogue())
      if (matches(identity, equation.name)) found.push_back(identity.id);
    CHECK(found.empty() == equation.ids.empty());
    for (const std::string& id : equation.ids) CHECK(std::find(found.begin(), found.end(), id) != found.end());
  }
}

TEST_CASE("equations: what a filter without rows is told") {
  VerifyOptions options;
  options.filter = "eq87";
  CHECK_THROWS_WITH_AS(run_catalogue(options),
                       "verify: eq87: no identity, because it is the objective that a task minimises", eg::ValueError);
  CHECK(numbered_equation("eq89") == nullptr);
  CHECK(numbered_equation("s1-eq101") == nullptr);
  options.filter = "eq42";
  CHECK(run_catalogue(options).front().id == "eq45");
}

TEST_CASE("equations: docs/equations.md says the same") {
  const std::string path = EQUIGRAD_SOURCE_DIR "/docs/equations.md", page = page_of(numbered_equations());
  if (std::getenv("EQUIGRAD_WRITE_DOCS") != nullptr) std::ofstream(path, std::ios::binary) << page;
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  INFO("run this test with EQUIGRAD_WRITE_DOCS=1 and commit docs/equations.md");
  CHECK(text.str() == page);
}

} // namespace
