#include "cli/program.h"
#include "core/registry.h"

#include <cstdint>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

using namespace eg::test;

TEST_CASE("bench lines have the agreed fields") {
  const Outcome got = run_program({"bench", "gemm", "--case", "1024x1024x1024-nn", "--seconds", "0.05", "--json", "-"});
  CHECK(got.code == 0);
  const auto line = nlohmann::json::parse(got.out.substr(0, got.out.find('\n')));
  for (const char* field :
       {"bench", "engine", "case", "threads", "batch", "ms", "ms_best", "cpu_ms", "per_s", "gflops", "rss_mb"})
    CHECK_MESSAGE(line.contains(field), field);
}

TEST_CASE("bench ops has inputs of model size for every row") {
  // Views cost the same for any size; an order of 4096 things is what a model's permutation is; the last two make much
  // of little.
  const std::set<std::string> small = {"reshape",   "transpose",
                                       "permute",   "slice",
                                       "expand",    "squeeze",
                                       "unsqueeze", "invert_permutation",
                                       "one_hot",   "adaptive_avg_pool2d_backward"};
  const Outcome got = run_program({"bench", "ops", "--seconds", "0.01", "--json", "-"});
  REQUIRE_MESSAGE(got.code == 0, got.err);
  std::istringstream lines(got.out);
  std::size_t count = 0;
  for (std::string text; std::getline(lines, text); ++count) {
    const auto line = nlohmann::json::parse(text);
    std::int64_t elements = 0;
    for (const auto& shape : line["shapes"]) {
      std::int64_t product = 1;
      for (const auto& extent : shape) product *= extent.get<std::int64_t>();
      elements += product;
    }
    const auto name = line["case"].get<std::string>();
    CHECK_MESSAGE((small.contains(name) || elements >= 100'000), name << " has " << elements << " elements");
  }
  CHECK(count == eg::registry().size());
}

TEST_CASE("bench step has the language models of the agreed list") {
  for (const char* name : {"bert-small", "bert-small-mlm"}) {
    const Outcome got =
        run_program({"bench", "step", "--case", name, "--batch", "1", "--seconds", "0.01", "--json", "-"});
    REQUIRE_MESSAGE(got.code == 0, got.err);
    const auto line = nlohmann::json::parse(got.out);
    CHECK(line["case"] == name);
    CHECK(line["batch"] == 1);
    CHECK(line["gflops"].get<double>() > 0.0);
  }
  const Outcome got = run_program({"bench", "step", "--case", "gpt3"});
  CHECK(got.code == 2);
  CHECK(got.err.find("there are vit-cifar, vit-cifar-wide, vit-tiny, vit-base, bert-small, bert-small-mlm, gpt2-small, "
                     "bert-base-infer, gpt2-decode") != std::string::npos);
}
