#include "cli/program.h"
#include "core/registry.h"

#include <cstdint>
#include <doctest/doctest.h>
#include <fstream>
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

TEST_CASE("bench says whether bf16 was used, and why not") {
  const Outcome got = run_program(
      {"bench", "gemm", "--dtype", "bf16", "--case", "4160x192x192-nt", "--seconds", "0.05", "--json", "-"});
  REQUIRE_MESSAGE(got.code == 0, got.err);
  const auto line = nlohmann::json::parse(got.out.substr(0, got.out.find('\n')));
  const bool used = got.err.find("products stay in f32") == std::string::npos;
  CHECK(line["dtype"] == (used ? "bf16" : "f32"));
  CHECK(line["engine"] == (used ? "equigrad" : "equigrad (f32 in place of bf16)"));
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

TEST_CASE("bench scaling prints every point of an axis, and cost grows with the batch") {
  const Outcome got = run_program({"bench", "scaling", "--case", "batch", "--seconds", "0.05", "--json", "-"});
  REQUIRE_MESSAGE(got.code == 0, got.err);
  std::istringstream lines(got.out);
  std::vector<double> flops;
  for (std::string text; std::getline(lines, text);) {
    const auto line = nlohmann::json::parse(text);
    CHECK(line["axis"] == "batch");
    CHECK(line["value"] == line["batch"]);
    CHECK(line["exponent"].is_null() == flops.empty());
    flops.push_back(line["gflops"].get<double>() * line["ms"].get<double>());
  }
  REQUIRE(flops.size() == 4);
  CHECK(flops[3] / flops[2] == doctest::Approx(4.0).epsilon(0.02)); // 16 -> 64 images
  const Outcome unknown = run_program({"bench", "scaling", "--case", "heads"});
  CHECK(unknown.code == 2);
  CHECK(unknown.err.find("there are tokens, width, depth, batch, threads") != std::string::npos);
}

TEST_CASE("--profile writes a trace that parses, and says where the time went") {
  const TemporaryFolder folder;
  const std::string trace = folder.path("trace.json");
  const Outcome got =
      run_program({"bench", "step", "--case", "bert-small", "--batch", "1", "--seconds", "0.01", "--profile", trace});
  REQUIRE_MESSAGE(got.code == 0, got.err);
  for (const char* words : {"adam", ", backward", "roofline", "peak memory", "trace.json"})
    CHECK_MESSAGE(got.out.find(words) != std::string::npos, words);
  const auto json = nlohmann::json::parse(std::ifstream(trace));
  bool linear = false, memory = false;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "C") memory = memory || event["args"]["peak"].get<double>() > 1.0;
    if (event["ph"] != "X") continue;
    CHECK(event["dur"].get<double>() >= 0.0);
    linear = linear || (event["name"] == "linear" && event["args"]["flops"].get<double>() > 0.0 &&
                        event["args"]["place"].get<std::string>().find("attention.qkv") != std::string::npos);
  }
  CHECK(linear);
  CHECK(memory);
  const Outcome lost = run_program({"bench", "step", "--case", "bert-small", "--profile", "/no/such/folder/t.json"});
  CHECK(lost.code == 2);
  CHECK(lost.err.find("/no/such/folder/t.json: cannot be written") != std::string::npos);
}
