// equigrad stip: the owner, the cloud and the user as three programs.

#include "cli/serving.h"

#include "data/safetensors.h"
#include "support/byte_tokenizer.h"
#include "support/small_models.h"

#include <algorithm>
#include <doctest/doctest.h>

using namespace eg;
using namespace eg::test;
using nlohmann::json;

namespace {

json result(const TemporaryFolder& folder, const std::string& name) {
  return json::parse(read_text(folder.path(name)));
}

} // namespace

TEST_CASE("stip: three programs over TLS say what generate says, 200 tokens") {
  if (!has_net()) return;
  const TemporaryFolder folder;
  const std::string certs = folder.path("certs");
  REQUIRE(run_program({"certs", "--out", certs, "--quiet"}).code == 0);
  for (const std::string family : {"gpt2", "llama"}) {
    CAPTURE(family);
    const std::string model = folder.path(family), out = folder.path(family + "-stip");
    write_small_model(model, family);
    write_byte_tokenizer(model);
    REQUIRE(run_program({"stip", "transform", "--model", model, "--out", out, "--quiet"}).code == 0);
    ServingProgram cloud({"stip", "serve", "--model", out + "/cloud", "--listen", "127.0.0.1:0", "--certs", certs,
                          "--json", folder.path("cloud.json"), "--dtype", "f64", "--quiet"});
    // f64: some keys meet a tie of two tokens within f32's rounding.
    const std::vector<std::string> text = {"--prompt",      "The end", "--max-new-tokens", "200", "--ignore-end",
                                           "--temperature", "0.7",     "--seed",           "5",   "--dtype",
                                           "f64",           "--quiet"};
    REQUIRE(run_program(with({"generate", "--model", model, "--json", folder.path("plain.json")}, text)).code == 0);
    const Outcome query = run_program(with({"stip", "query", "--model", out + "/user", "--connect", cloud.place(),
                                            "--certs", certs, "--json", folder.path("query.json")},
                                           text));
    INFO(query.err);
    REQUIRE(query.code == 0);
    const json plain = result(folder, "plain.json"), asked = result(folder, "query.json");
    CHECK(asked["ids"].size() == 200);
    CHECK(asked["ids"] == plain["ids"]);
    CHECK(asked["text"] == plain["text"]);
    CHECK(asked["wire"]["tokens"]["requests"] == 199);
    const double bytes = asked["wire"]["bytes_per_token"];
    CHECK(bytes > 2 * 48 * 8);
    CHECK(bytes < 2 * (48 * 8 + 100));
    CHECK(cloud.stop().code == 0);
    const json served = result(folder, "cloud.json");
    CHECK(served["sessions"] == 1);
    CHECK(served["tokens"] == 206); // the prompt, and all that followed but the last
  }
}

TEST_CASE("stip: outputs of an encoder as infer gives them, and what is wrong in one line") {
  if (!has_net()) return;
  const TemporaryFolder folder;
  const std::string model = folder.path("bert"), out = folder.path("out");
  write_small_model(model, "bert");
  const hub::Tensors inputs = small_inputs(*hub::load_model(model).model);
  data::save_safetensors(folder.path("in.safetensors"), inputs);
  REQUIRE(run_program({"stip", "transform", "--model", model, "--out", out, "--scheme", "stip1"}).code == 0);
  ServingProgram cloud({"stip", "serve", "--model", out + "/cloud", "--listen", "127.0.0.1:0", "--insecure-loopback",
                        "--dtype", "f64", "--quiet"});
  const std::vector<std::string> there = {"--connect", cloud.place(), "--insecure-loopback"};
  const auto query = [&](const std::vector<std::string>& more) {
    return with(with({"stip", "query", "--model", out + "/user"}, there), more);
  };
  const std::vector<std::string> files = {
      "--inputs", folder.path("in.safetensors"), "--outputs", folder.path("out.safetensors"), "--dtype", "f64"};
  const Outcome asked = run_program(query(files));
  INFO(asked.err);
  REQUIRE(asked.code == 0);
  REQUIRE(run_program({"infer", "--model", model, "--inputs", folder.path("in.safetensors"), "--outputs",
                       folder.path("plain.safetensors"), "--dtype", "f64"})
              .code == 0);
  const data::TensorFile found = data::load_safetensors(folder.path("out.safetensors"));
  for (const auto& [name, value] : data::load_safetensors(folder.path("plain.safetensors")).tensors) {
    REQUIRE(found.find(name) != nullptr);
    CHECK(relative_error(*found.find(name), value) < 1e-13);
  }
  const auto refused = [&](const std::vector<std::string>& args, const char* words) {
    const Outcome outcome = run_program(args);
    INFO(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(words) != std::string::npos);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  };
  refused({"stip"}, "part");
  refused({"stip", "sell"}, "sell");
  refused({"stip", "transform", "--model", model, "--out", out}, "is there already");
  refused({"stip", "transform", "--model", model, "--out", folder.path("x"), "--seed", "1"}, "no effect");
  refused({"stip", "serve", "--model", out + "/user", "--listen", "127.0.0.1:0", "--insecure-loopback"}, "stip.json");
  refused({"stip", "serve", "--model", out + "/cloud", "--listen", "0.0.0.0:0", "--insecure-loopback"},
          "only loopback");
  refused(query({}), "--inputs");
  refused(query({"--ids", "1,2"}), "no language model");
  std::vector<std::string> single = files;
  single.back() = "f32";
  refused(query(single), "z must be f64");
  const Outcome moved = run_program(with({"stip", "query", "--model", out + "/cloud"}, with(there, files)));
  CHECK(moved.code == 2);
  CHECK(cloud.stop().code == 0);
  const Outcome unreachable = run_program(query(with(files, {"--attempts", "2"})));
  CHECK(unreachable.code == 2);
  CHECK(unreachable.err.find(cloud.place()) != std::string::npos);
}

TEST_CASE("stip: the variants that fail, as numbers") {
  if (!has_net()) return;
  const TemporaryFolder folder;
  const Outcome shown = run_program({"stip", "demonstrate", "--json", folder.path("rows.json")});
  CHECK(shown.code == 0);
  const json rows = result(folder, "rows.json");
  CHECK(rows["with_plain_mask"].get<double>() > 1e-2);
  CHECK(rows["with_permuted_mask"].get<double>() < 1e-12);
  CHECK(rows["recovered"] == 1.0);
}
