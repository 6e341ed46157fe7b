// What the system may refuse or the user may set: threads, address space, which OpenBLAS.

#include "cli/limit.h"
#include "cli/program.h"
#include "support/skip.h"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <string>
#include <vector>

using namespace eg::test;

namespace {

void check_refused(const std::vector<std::string>& args, const std::string& words) {
  const Outcome got = run_program(args);
  INFO(got.err);
  CHECK(got.code == 2);
  CHECK(std::count(got.err.begin(), got.err.end(), '\n') == 1);
  CHECK(got.err.find(words) != std::string::npos);
}

/// Debian's flavours side by side: /usr/lib/TRIPLE/openblas-FLAVOUR/libopenblas.so.0.
std::vector<std::string> openblas_flavours() {
  std::vector<std::string> found;
  for (const auto& triple : std::filesystem::directory_iterator("/usr/lib"))
    for (const char* flavour : {"pthread", "openmp", "serial"}) {
      const auto library = triple.path() / (std::string("openblas-") + flavour) / "libopenblas.so.0";
      std::error_code none;
      if (std::filesystem::exists(library, none)) found.push_back(library.string());
    }
  return found;
}

/// The weights after two steps of training: forward, backward and update, bit for bit.
std::string trained_weights(const std::string& threads) {
  const TemporaryFolder folder;
  const Outcome got =
      run_program({"train",    "vit", "--data",    "shapes", "--train-limit", "64",    "--test-limit",    "16",
                   "--steps",  "2",   "--batch",   "16",     "--dim",         "64",    "--heads",         "2",
                   "--layers", "2",   "--threads", threads,  "--quiet",       "--out", folder.path("run")});
  INFO(got.err);
  REQUIRE(got.code == 0);
  return read_text(folder.path("run/model.safetensors"));
}

} // namespace

TEST_CASE("more threads than can be had are refused") {
  // One range, whatever refuses: the option, the variable and a loop over the threads.
  check_refused({"doctor", "--threads", "100000"}, "--threads: '100000' is not a whole number from 0 to ");
  const Outcome refused = run_program({"doctor", "--threads", "100000"});
  const std::size_t to = refused.err.find(" to ");
  REQUIRE(to != std::string::npos);
  const std::string most = refused.err.substr(to + 4, refused.err.find(' ', to + 4) - to - 4);
  CHECK(run_program({"doctor", "--quiet", "--threads", most}).code == 0);
  check_refused({"doctor", "--threads", std::to_string(std::stoi(most) + 1)}, "from 0 to " + most + " ");
  {
    const Variable many("EQUIGRAD_THREADS", "100000");
    check_refused({"doctor"}, "EQUIGRAD_THREADS: '100000' is not a number from 1 to " + most);
  }
  // Stacks of 8 MiB for 200 threads do not fit into 1 GiB of addresses. A limit on processes ends the same way, but
  // does not hold root.
  const Limit stack(RLIMIT_STACK, rlim_t{8} << 20);
  const Limit addresses(RLIMIT_AS, rlim_t{1} << 30);
  check_refused({"train", "vit", "--data", "shapes", "--steps", "1", "--threads", "200"}, " of 200 threads");
  check_refused({"train", "vit", "--data", "shapes", "--steps", "1", "--threads", "200"},
                "raise the limit on processes (ulimit -u) or, for the threads' stacks, on address space (ulimit -v)");
}

TEST_CASE("doctor reports an OpenBLAS that is missing, and refuses it only where products need it") {
  const auto blas = [] {
    const Outcome got = run_program({"doctor", "--json", "-"});
    CHECK(got.code == 0);
    CHECK(got.err.empty());
    const auto json = nlohmann::json::parse(got.out);
    CHECK(json["products"] == "own kernel");
    return json["blas"].get<std::string>();
  };
  {
    const Variable library("EQUIGRAD_OPENBLAS", "/no/such/libopenblas.so");
    CHECK(blas().starts_with("none, and none is needed: OpenBLAS cannot be opened: /no/such/libopenblas.so"));
    CHECK(run_program({"doctor"}).out.find("none, and none is needed: ") != std::string::npos);
    const Variable engine("EQUIGRAD_GEMM", "openblas");
    check_refused({"doctor"}, "blas: OpenBLAS cannot be opened: /no/such/libopenblas.so");
  }
  const Variable library("EQUIGRAD_OPENBLAS", "libm.so.6");
  CHECK(blas() == "none, and none is needed: libm.so.6 has no cblas_sgemm; it is not OpenBLAS");
}

TEST_CASE("EQUIGRAD_GEMM chooses who multiplies matrices") {
  const std::string own = trained_weights("1");
  CHECK(trained_weights("2") == own);
  CHECK(trained_weights("3") == own);
  const Variable library("EQUIGRAD_OPENBLAS", "/no/such/libopenblas.so"); // our own kernel does not ask for it
  CHECK(trained_weights("2") == own);
  {
    const Variable engine("EQUIGRAD_GEMM", "openblas");
    check_refused({"bench", "step", "--case", "bert-small"}, "blas: OpenBLAS cannot be opened");
  }
  const Variable engine("EQUIGRAD_GEMM", "mkl");
  check_refused({"bench", "step", "--case", "bert-small"}, "EQUIGRAD_GEMM is 'mkl'; it can be own or openblas");
}

TEST_CASE("every flavour of OpenBLAS gives the same bits for any number of threads") {
  const std::vector<std::string> flavours = openblas_flavours();
  if (flavours.empty())
    return skip("every flavour of OpenBLAS gives the same bits", "no folder /usr/lib/TRIPLE/openblas-FLAVOUR");
  const Variable engine("EQUIGRAD_GEMM", "openblas");
  const Variable wishes("OMP_NUM_THREADS", "3"); // what OpenBLAS's OpenMP flavour would follow
  const std::string expected = trained_weights("1");
  CHECK(expected.size() > 1000);
  for (const std::string& flavour : flavours) {
    const Variable library("EQUIGRAD_OPENBLAS", flavour);
    for (const char* threads : {"1", "2", "3"}) CHECK_MESSAGE(trained_weights(threads) == expected, flavour);
  }
}
