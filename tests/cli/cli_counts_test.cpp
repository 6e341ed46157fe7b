// bench ops --store and --against: hot calls take no more instructions than when they were stored, and what takes more
// is named.

#include "cli/program.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <string>

using namespace eg::test;

namespace {

const std::string stored = EQUIGRAD_SOURCE_DIR "/tests/bench/counts.json";

/// True, with a message, where nothing can be counted as the file was.
bool cannot_count() {
#if !defined(__x86_64__) || defined(__clang__)
  MESSAGE("skipped: the stored counts are of g++ on x86-64");
  return true;
#else
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    MESSAGE("skipped: this processor has no AVX2");
    return true;
  }
  if (std::system("command -v valgrind > /dev/null") != 0) {
    skip("cli_counts", "valgrind is not installed");
    return true;
  }
  return false;
#endif
}

nlohmann::json read(const std::string& path) { return nlohmann::json::parse(std::ifstream(path)); }

Outcome against(const std::string& file, std::vector<std::string> more) {
  more.insert(more.begin(), {"bench", "ops", "--against", file, "--threads", "1"});
  return run_program(more);
}

} // namespace

TEST_CASE("hot calls take no more instructions than are stored") {
  if (cannot_count()) return;
  const Outcome got = against(stored, {});
  INFO(got.out);
  INFO(got.err);
  INFO("a change of kernels that is worth its instructions: equigrad bench ops --store tests/bench/counts.json "
       "--counter valgrind --threads 1");
  CHECK(got.code == 0);
}

TEST_CASE("a call that takes more instructions is named, and the exit status is 1") {
  if (cannot_count()) return;
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/counts.json";
  nlohmann::json counts = read(stored);
  auto& softmax = counts["instructions"]["softmax"];
  softmax = softmax.get<std::uint64_t>() * 95 / 100;
  std::ofstream(file) << counts;
  const Outcome slower = against(file, {"--case", "softmax"});
  CHECK(slower.code == 1);
  CHECK(slower.out.find("SLOWER") != std::string::npos);
  CHECK(against(file, {"--case", "softmax", "--tolerance", "10"}).code == 0);
  CHECK(against(file, {"--case", "gelu"}).code == 0);
}

TEST_CASE("a slower kernel is seen") {
  if (cannot_count()) return;
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/counts.json";
  {
    const Variable openblas("EQUIGRAD_GEMM", "openblas"); // fewer instructions than ours for this product
    const Outcome made =
        run_program({"bench", "ops", "--store", file, "--counter", "valgrind", "--threads", "1", "--case", "matmul"});
    REQUIRE_MESSAGE(made.code == 0, made.err);
  }
  const Outcome got = against(file, {"--case", "matmul"});
  CHECK(got.code == 1);
  CHECK(got.out.find("SLOWER") != std::string::npos);
}
