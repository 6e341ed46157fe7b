// --device and doctor where there is no device module; verify on the emulated device.

#include "cli/program.h"
#include "nn/hub/folder.h"
#include "support/temporary_folder.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

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

TEST_CASE("what is no file is no module") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/pipe";
  REQUIRE(mkfifo(path.c_str(), 0600) == 0); // opening it would wait for a writer
  const Variable module("EQUIGRAD_CUDA_MODULE", path.c_str());
  check_refused(with(train, {"--device", "cuda"}), path + ": is no file");
}

#ifdef EQUIGRAD_EMULATED
TEST_CASE("a module file that was cut short is refused, and the program goes on") {
  const TemporaryFolder folder;
  const std::string whole = read_text(EQUIGRAD_EMULATED), path = folder.path("module.so");
  const auto told = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
    const Variable module("EQUIGRAD_CUDA_MODULE", path.c_str());
    const Outcome got = run_program({"doctor", "--json", "-"});
    CHECK(got.code == 0);
    return nlohmann::json::parse(got.out).at("cuda_refusal").get<std::string>();
  };
  for (const std::size_t bytes :
       {std::size_t{64}, std::size_t{4096}, whole.size() / 4, whole.size() / 2, whole.size() - 1})
    CHECK(told(whole.substr(0, bytes)).find(": is cut short: it has " + std::to_string(bytes) + " bytes") !=
          std::string::npos);
  CHECK(told("").find(": is empty") != std::string::npos);
  CHECK(told("#!/bin/sh").find(": is no shared library: it has 9 bytes") != std::string::npos);
  CHECK(told(std::string(500, 'x')).find(": is no shared library of 64 bits") != std::string::npos);
  CHECK(told(whole).empty());
}

TEST_CASE("doctor names the engine of products on a device, and why no other") {
  const Variable module("EQUIGRAD_CUDA_MODULE", EQUIGRAD_EMULATED);
  const auto products = [] {
    CHECK(run_program({"doctor"}).out.find("matrix products there: ") != std::string::npos);
    return nlohmann::json::parse(run_program({"doctor", "--json", "-"}).out)
        .at("cuda")
        .at("products")
        .get<std::string>();
  };
  CHECK(products().find("the module's own kernel; cuBLASLt: ") == 0);
  const Variable library("EQUIGRAD_CUDA_GEMM", "cublaslt");
  CHECK(products() == "cuBLASLt 13.0.2");
  const Variable own("EQUIGRAD_CUDA_GEMM", "own");
  CHECK(products() == "the module's own kernel, as EQUIGRAD_CUDA_GEMM asks");
}
#endif

TEST_CASE("doctor says where it looked for the module") {
  const Variable module("EQUIGRAD_CUDA_MODULE", "/nonexistent/module.so");
  const Outcome told = run_program({"doctor"});
  CHECK(told.code == 0);
  CHECK(told.out.find("CUDA        no device; the module is") != std::string::npos);
  CHECK(told.out.find("              /nonexistent/module.so: no such file\n") != std::string::npos);
  const auto json = nlohmann::json::parse(run_program({"doctor", "--json", "-"}).out);
  CHECK(json.at("cuda").is_null());
  CHECK(json.at("cuda_refusal") == "/nonexistent/module.so: no such file");
}

TEST_CASE("verify refuses exact reductions on a device, and a device that is not there") {
  const Variable module("EQUIGRAD_CUDA_MODULE", "/nonexistent/module.so");
  const std::string why = "no module for CUDA was found; /nonexistent/module.so: no such file";
  check_refused({"verify", "--filter", "eq45", "--device", "cuda"}, why);
  check_refused({"verify", "--model", "/no/such/folder", "--device", "cuda"}, why);
  check_refused({"verify", "--device", "gpu"}, "--device: 'gpu' is neither cpu nor cuda nor cuda:N");
  CHECK(run_program({"verify", "--filter", "eq45", "--device", "cpu"}).code == 0);
}

#ifdef EQUIGRAD_EMULATED

TEST_CASE("verify computes on the device") {
  const TemporaryFolder folder;
  const Variable module("EQUIGRAD_CUDA_MODULE", EQUIGRAD_EMULATED);
  const std::string json = folder.path("r.json");
  for (const bool asked : {true, false}) { // by the flag, by the environment
    const Variable device("EQUIGRAD_DEVICE", asked ? "cpu" : "cuda");
    std::vector<std::string> args = {"verify", "--filter", "thm4.*", "--json", json};
    if (asked) args = with(args, {"--device", "cuda:0"});
    const Outcome got = run_program(args);
    CHECK_MESSAGE(got.code == 0, got.out, got.err);
    CHECK(got.out.find(" identities hold on cuda:0 within their gates") != std::string::npos);
    const nlohmann::json result = nlohmann::json::parse(read_text(json));
    REQUIRE(result.at("results").size() >= 6);
    for (const nlohmann::json& row : result.at("results")) {
      CHECK(row.at("device") == "cuda:0");
      CHECK(row.at("status") == "pass");
      CHECK(row.at("control").at("error").get<double>() > 1e-3);
    }
  }
  const Outcome here = run_program({"verify", "--filter", "eq45", "--json", json});
  CHECK(here.code == 0);
  CHECK(here.out.find("cuda") == std::string::npos);
  CHECK(nlohmann::json::parse(read_text(json)).at("results").at(0).at("device") == "cpu");
}

TEST_CASE("verify on the device: what it has no kernels for, or is not there, is refused") {
  const Variable module("EQUIGRAD_CUDA_MODULE", EQUIGRAD_EMULATED);
  const std::string why =
      "--exact computes on the CPU alone: matrix products have no exact kernel for cuda:0; give --device cpu";
  check_refused({"verify", "--filter", "eq45", "--device", "cuda", "--exact"}, why);
  check_refused({"verify", "--filter", "eq45", "--device", "cuda:1"}, "cuda:1: there is no such device");
  const Variable device("EQUIGRAD_DEVICE", "cuda");
  check_refused({"verify", "--filter", "eq45", "--exact"}, why);
  CHECK(run_program({"verify", "--filter", "eq45", "--exact", "--device", "cpu"}).code == 0);
}

TEST_CASE("verify on the device: a row that needs the CPU is named") {
  const TemporaryFolder folder;
  const Variable module("EQUIGRAD_CUDA_MODULE", EQUIGRAD_EMULATED);
  const std::string json = folder.path("r.json");
  const std::string why = "train-blockwise takes exact sums, and matrix products have no exact kernel for cuda:0";
  check_refused({"verify", "--filter", "train-blockwise", "--device", "cuda"}, why);
  const std::vector<std::string> args = {"verify", "--filter", "train-b*", "--steps", "4", "--json", json};
  const Outcome got = run_program(with(args, {"--device", "cuda"}));
  CHECK_MESSAGE(got.code == 0, got.out, got.err);
  CHECK(got.out.find("Left out: " + why + ".\n") != std::string::npos);
  const nlohmann::json there = nlohmann::json::parse(read_text(json));
  CHECK(there.at("results").size() == 2);
  CHECK(there.at("summary").at("left_out") == nlohmann::json{"train-blockwise"});
  CHECK(run_program(args).code == 0);
  const nlohmann::json here = nlohmann::json::parse(read_text(json));
  CHECK(here.at("results").size() == 4);
  CHECK_FALSE(here.at("summary").contains("left_out"));
}

TEST_CASE("verify --model on the device: a folder's blocks hold, spoiled ones fail") {
  const TemporaryFolder folder;
  const Variable module("EQUIGRAD_CUDA_MODULE", EQUIGRAD_EMULATED);
  const nlohmann::json config = {{"model_type", "bert"},     {"architectures", {"BertForMaskedLM"}},
                                 {"hidden_size", 12},        {"num_hidden_layers", 2},
                                 {"num_attention_heads", 3}, {"intermediate_size", 10},
                                 {"vocab_size", 17},         {"max_position_embeddings", 6}};
  const auto model = eg::hub::make_model(config, {6, 0});
  const std::string path = folder.path("model"), json = folder.path("r.json");
  const std::vector<std::string> args = {"verify", "--model", path, "--device", "cuda", "--json", json};
  eg::hub::save_model(*model, path);
  const Outcome got = run_program(args);
  CHECK_MESSAGE(got.code == 0, got.out, got.err);
  const nlohmann::json result = nlohmann::json::parse(read_text(json));
  CHECK(result.at("results").size() == 10);
  for (const nlohmann::json& row : result.at("results")) CHECK(row.at("device") == "cuda:0");
  // A weight that is no number: nothing about such blocks can be said to hold.
  for (const eg::nn::Parameter& p : model->module().named_parameters())
    if (p.name.ends_with("fc1.bias")) {
      eg::Tensor weight = p.value;
      weight.fill(std::numeric_limits<double>::quiet_NaN());
    }
  eg::hub::save_model(*model, path);
  const Outcome failed = run_program(args);
  CHECK_MESSAGE(failed.code == 1, failed.out, failed.err);
  CHECK(failed.out.find("0 of 10 identities hold on cuda:0") != std::string::npos);
}

#endif
