// equigrad verify --model: the theorems on folders of every family.

#include "program.h"

#include "core/base/json.h"
#include "nn/hub/folder.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <set>

using namespace eg;
using nlohmann::json;
using test::Outcome;
using test::run_program;
using test::TemporaryFolder;

namespace {

json vit() {
  return {
      {"model_type", "vit"},      {"architectures", {"ViTModel"}}, {"hidden_size", 12},     {"num_hidden_layers", 2},
      {"num_attention_heads", 3}, {"intermediate_size", 10},       {"image_size", {8, 12}}, {"patch_size", 4}};
}
json bert() {
  return {{"model_type", "bert"},     {"architectures", {"BertForMaskedLM"}},
          {"hidden_size", 12},        {"num_hidden_layers", 2},
          {"num_attention_heads", 3}, {"intermediate_size", 10},
          {"vocab_size", 17},         {"max_position_embeddings", 6}};
}
json llama() {
  return {{"model_type", "llama"},    {"architectures", {"LlamaForCausalLM"}},
          {"hidden_size", 12},        {"num_hidden_layers", 2},
          {"num_attention_heads", 3}, {"num_key_value_heads", 1},
          {"vocab_size", 17},         {"intermediate_size", 10}};
}
json gpt2() {
  return {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
          {"n_embd", 12},         {"n_layer", 2},
          {"n_head", 3},          {"vocab_size", 17},
          {"n_positions", 9}};
}

std::string saved(const TemporaryFolder& folder, const json& config) {
  std::string path = folder.path(config["model_type"].get<std::string>());
  hub::save_model(*hub::make_model(config, {6, 0}), path);
  return path;
}

} // namespace

TEST_CASE("verify --model: the theorems hold on a folder's own weights, in exact mode bit for bit") {
  const TemporaryFolder folder;
  for (const json& config : {vit(), bert(), gpt2(), llama()}) {
    const std::string path = saved(folder, config);
    CAPTURE(path);
    const Outcome got = run_program({"verify", "--model", path, "--exact", "--json", folder.path("r.json")});
    CHECK_MESSAGE(got.code == 0, got.out, got.err);
    const json result = read_json(folder.path("r.json"));
    std::set<std::string> ids;
    for (const json& row : result["results"]) {
      ids.insert(row["id"]);
      CHECK(row["status"] == "pass");
      CHECK(row["bitwise"] == true);
      CHECK(row["control"]["error"].get<double>() > 1e-3);
      CHECK(row["sizes"]["layers"] == 2);
      CHECK(row["sizes"]["hidden"] == (config["model_type"] == "gpt2" ? 48 : 10));
    }
    const bool causal = config["model_type"] == "gpt2" || config["model_type"] == "llama";
    CHECK(ids == (causal ? std::set<std::string>{"lem9.4", "thm4.4", "thm4.5"}
                         : std::set<std::string>{"lem9.4", "thm4.1", "thm4.2", "thm4.4", "thm4.5"}));
    CHECK(result["results"].size() == 2 * ids.size());
  }
}

TEST_CASE("verify --model: what it cannot do is refused") {
  const TemporaryFolder folder;
  const std::string path = saved(folder, bert());
  const auto refused = [](const std::vector<std::string>& arguments, const char* words) {
    const Outcome got = run_program(arguments);
    CHECK(got.code == 2);
    CHECK_MESSAGE(got.err.find(words) != std::string::npos, got.err);
  };
  refused({"verify", "--model", path, "--dim", "8"}, "--dim has no effect with --model");
  refused({"verify", "--model", path, "--filter", "eq45"}, "no row for models fits the filter 'eq45'");
  refused({"verify", "--model", folder.path("nothing")}, "nothing/config.json: cannot open");
  json none = bert();
  none["num_hidden_layers"] = 0;
  const TemporaryFolder empty;
  refused({"verify", "--model", saved(empty, none)}, "the model has no blocks");
}
