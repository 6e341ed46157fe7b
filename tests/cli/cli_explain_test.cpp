// `verify --explain`, and rows that are skipped because they need larger sizes.

#include "cli/program.h"

#include <doctest/doctest.h>

using namespace eg::test;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("verify --explain: statement, formula, sizes, both sides, the difference and the control") {
  const Outcome outcome = run_program({"verify", "--explain", "toy"});
  CHECK(outcome.code == 0);
  for (const char* part : {"toy: the 3 x 4 example", "P_R Z = ", "tokens 3", "left - right", "[  5  6  7  8 ]",
                           "The control, which must differ.", "the inverse of P_R", "\npass: "})
    CHECK_MESSAGE(has(outcome.out, part), part, outcome.out);
  CHECK(!has(outcome.out, "\033")); // colours are for terminals
}

TEST_CASE("verify --explain: an equation's number names a row, sizes are taken, and JSON has the same numbers") {
  const TemporaryFolder folder;
  const std::string path = folder.path("e.json");
  const Outcome outcome =
      run_program({"verify", "--explain", "eq37", "--tokens", "2", "--dtype", "f32", "--json", path});
  CHECK(outcome.code == 0);
  CHECK(has(outcome.out, "lem9.2"));
  const auto json = nlohmann::json::parse(read_text(path));
  const auto& result = json["results"][0];
  CHECK(result["id"] == "lem9.2");
  CHECK(result["dtype"] == "f32");
  CHECK(result["comparisons"][0]["left"].size() == 2);
  CHECK(result["control"]["comparisons"].size() == 1);
}

TEST_CASE("verify --explain: refuses what it does not look at, and what is not one row") {
  const auto refused = [](const std::vector<std::string>& words, const char* part) {
    const Outcome outcome = run_program(words);
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(has(outcome.err, part), outcome.err);
  };
  refused({"verify", "--explain", "toy", "--filter", "toy"}, "--filter has no effect with --explain");
  refused({"verify", "--explain", "thm4.*"}, "--explain takes one row");
  refused({"verify", "--explain", "nothing-like-it"}, "no identity fits");
}

TEST_CASE("verify: rows that need larger sizes are skipped, and say so") {
  const Outcome outcome =
      run_program({"verify", "--filter", "thm4.4", "--dim", "4", "--heads", "1", "--json", "-", "--quiet"});
  CHECK(outcome.code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["results"][0]["status"] == "skip");
  CHECK(json["results"][0]["detail"] == "needs at least 2 heads");
  CHECK(json["summary"]["skip"] == 2);
  CHECK(json["summary"]["fail"] == 0);
}
