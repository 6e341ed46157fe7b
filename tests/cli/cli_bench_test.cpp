#include "cli/program.h"
#include "core/registry.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <string>

using namespace eg::test;

TEST_CASE("bench lines have the agreed fields") {
  const Outcome got = run_program({"bench", "gemm", "--case", "1024x1024x1024-nn", "--seconds", "0.05", "--json", "-"});
  CHECK(got.code == 0);
  const auto line = nlohmann::json::parse(got.out.substr(0, got.out.find('\n')));
  for (const char* field :
       {"bench", "engine", "case", "threads", "batch", "ms", "ms_best", "per_s", "gflops", "rss_mb"})
    CHECK_MESSAGE(line.contains(field), field);
}

TEST_CASE("bench ops has inputs for every row") {
  const Outcome got = run_program({"bench", "ops", "--seconds", "0.01", "--json", "-"});
  REQUIRE_MESSAGE(got.code == 0, got.err);
  CHECK(static_cast<std::size_t>(std::count(got.out.begin(), got.out.end(), '\n')) == eg::registry().size());
}
