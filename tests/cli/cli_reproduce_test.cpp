// equigrad reproduce.

#include "cli/program.h"

#include <doctest/doctest.h>
#include <filesystem>

using namespace eg::test;

TEST_CASE("the papers' operation counts are derived again") {
  const TemporaryFolder folder;
  const Outcome got = run_program(
      {"reproduce", "cvpr-F8", "--json", "-", "--out", folder.path("out"), "--markdown", folder.path("table.md")});
  REQUIRE_MESSAGE(got.code == 0, got.err);
  const auto result = nlohmann::json::parse(got.out)["results"][0];
  CHECK(result["status"] == "pass");
  CHECK(result["lines"][0]["mean"].get<double>() == doctest::Approx(100.39).epsilon(1e-4));
  CHECK(result["lines"][1]["mean"].get<double>() == doctest::Approx(102.14).epsilon(1e-4));
  CHECK(result["lines"][3]["mean"] == 0.0);
  CHECK(std::filesystem::exists(folder.path("out/cvpr-F8.html")));
  CHECK(read_text(folder.path("table.md")).find("100.39 G") != std::string::npos);
}

TEST_CASE("experiments are listed, and those that are not there are refused with the nearest one") {
  const Outcome list = run_program({"reproduce", "--list"});
  CHECK(list.code == 0);
  CHECK(list.out.find("s1-T1") != std::string::npos);
  const Outcome none = run_program({"reproduce"});
  CHECK(none.code == 2);
  CHECK(none.err.find("--list") != std::string::npos);
  const Outcome wrong = run_program({"reproduce", "cvpr-T22"});
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("cvpr-T2") != std::string::npos);
  const Outcome scale = run_program({"reproduce", "cvpr-F8", "--scale", "huge"});
  CHECK(scale.code == 2);
  CHECK(scale.err.find("full, small") != std::string::npos);
  const Outcome both = run_program({"reproduce", "all", "--config", "x.json"});
  CHECK(both.code == 2);
}
