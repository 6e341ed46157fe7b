// --device and doctor where there is no device module.

#include "cli/program.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace eg::test;

namespace {

void check_refused(const std::vector<std::string>& args, const std::string& words) {
  const Outcome got = run_program(args);
  INFO(got.err);
  CHECK(got.code == 2);
  CHECK(got.out.empty());
  CHECK(std::count(got.err.begin(), got.err.end(), '\n') == 1);
  CHECK(got.err.find(words) != std::string::npos);
}

const std::vector<std::string> train = {"train",   "vit", "--data", "/no/such/folder",
                                        "--steps", "1",   "--out",  "/no/out"};

std::vector<std::string> with(std::vector<std::string> args, const std::vector<std::string>& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

} // namespace

TEST_CASE("a device that is not there is refused before data are read, and the error says where was looked") {
  const Variable module("EQUIGRAD_CUDA_MODULE", "/nonexistent/module.so");
  const std::string why = "no module for CUDA was found; /nonexistent/module.so: no such file";
  check_refused(with(train, {"--device", "cuda"}), why);
  check_refused({"bench", "step", "--case", "vit-tiny", "--device", "cuda:1"}, why);
  check_refused(with(train, {"--device", "gpu"}), "device must be cpu, cuda or cuda:N, not 'gpu'");
  check_refused({"bench", "step", "--device", "cuda:x"}, "--device: 'cuda:x' is neither cpu nor cuda nor cuda:N");
  check_refused({"bench", "gemm", "--device", "cpu"}, "--device has an effect on bench step alone");
  check_refused(with(train, {"--device", "cpu"}), "/no/such/folder");
  const Variable device("EQUIGRAD_DEVICE", "cuda");
  check_refused(train, why);
  check_refused(with(train, {"--device", "cpu"}), "/no/such/folder");
  const Variable other("EQUIGRAD_DEVICE", "gpu");
  check_refused(train, "EQUIGRAD_DEVICE: device: 'gpu' is neither cpu nor cuda nor cuda:N");
}

TEST_CASE("doctor says where it looked for the module") {
  const Variable module("EQUIGRAD_CUDA_MODULE", "/nonexistent/module.so");
  const Outcome told = run_program({"doctor"});
  CHECK(told.code == 0);
  CHECK(told.out.find("CUDA        none; looked for its module") != std::string::npos);
  CHECK(told.out.find("              /nonexistent/module.so: no such file\n") != std::string::npos);
  const auto json = nlohmann::json::parse(run_program({"doctor", "--json", "-"}).out);
  CHECK(json.at("cuda").is_null());
  CHECK(json.at("cuda_refusal") == "/nonexistent/module.so: no such file");
}
