#include "fuzz/model_folder.h"

#include "core/base/error.h"
#include "core/base/json.h"
#include "fuzz/scratch.h"
#include "nn/hub/folder.h"
#include "support/temporary_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace eg::fuzz {
namespace {

using nlohmann::json;

/// Models that load, each in a folder of its own, and every field that one of them has.
class Samples {
public:
  Samples() {
    std::set<std::string> fields;
    const json golden = read_json(EQUIGRAD_SOURCE_DIR "/tests/golden/transformers.json");
    for (const json& sample : golden["cases"]) {
      const json& config = configs_.emplace_back(sample["config"]);
      const json flat = config.flatten(); // "/rope_scaling/factor"
      for (const auto& [pointer, value] : flat.items()) fields.insert(pointer);
      for (const auto& [key, value] : config.items()) fields.insert("/" + key);
      const std::string folder = folder_.path(std::to_string(configs_.size()));
      hub::save_model(*hub::make_model(config, {1, 2}), folder);
      std::filesystem::remove(folder + "/config.json");
      std::filesystem::create_symlink(config_.path(), folder + "/config.json");
      folders_.push_back(folder);
    }
    fields_.assign(fields.begin(), fields.end());
  }

  std::size_t count() const { return configs_.size(); }
  const json& config(std::size_t i) const { return configs_[i]; }
  const std::string& folder(std::size_t i) const { return folders_[i]; }
  const std::string& field(std::size_t i) const { return fields_[i % fields_.size()]; }
  /// What every folder's config.json is from now on.
  void set_config(const json& config) const {
    const std::string text = config.dump();
    config_.write({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  }

private:
  test::TemporaryFolder folder_;
  ScratchFile config_; ///< in memory: written for each round
  std::vector<json> configs_;
  std::vector<std::string> folders_, fields_;
};

const std::vector<json>& awkward_values() {
  static const std::vector<json> values = json::parse(R"([
    null, true, false, 0, 1, 2, 3, 5, 7, 64, -1, 65536, 2147483648, 1099511627776, 9223372036854775807,
    18446744073709551615, -9223372036854775808, 0.0, -0.0, 0.5, 1.5, -2.5, 1e-300, 1e300, "", "x", "gelu", "relu",
    "silu", "default", "linear", "dynamic", "llama3", "yarn", "longrope", "bert", "gpt2", "llama", "vit", "deit",
    [], {}, [0], [1, 2], [4, 4], [3, 5, 7], [-1, 1], [1e18, 1e18], ["BertModel"], ["GPT2LMHeadModel"],
    ["LlamaForCausalLM"], ["ViTModel"], [[1]], {"rope_type": "yarn", "factor": 4.0}, {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 16}, {"type": "linear", "factor": 0}
  ])");
  return values;
}

/// `config` with the value at `pointer`; where a part of the way is no object, nothing changes.
void put(json& config, const std::string& pointer, const json& value) {
  try {
    config[json::json_pointer(pointer)] = value;
  } catch (const json::exception&) {
    return;
  }
}

Tensor small_input(const std::string& name) {
  if (name == "pixel_values") return Tensor::ones({1, 3, 8, 8});
  if (name == "inputs_embeds") return Tensor::ones({1, 3, 8});
  return Tensor::from<std::int64_t>({1, 0, 1}, {1, 3});
}

void run(const hub::Model& model) {
  try {
    model.forward({{model.input_names().front(), small_input(model.input_names().front())}});
  } catch (const Error&) {
    return;
  }
}

} // namespace

void model_folder(ByteView bytes) {
  static const Samples samples;
  if (bytes.empty()) return;
  const std::size_t chosen = bytes[0] % samples.count();
  json config = samples.config(chosen);
  for (std::size_t i = 1; i + 1 < bytes.size() && i < 16; i += 2)
    put(config, samples.field(bytes[i]), awkward_values()[bytes[i + 1] % awkward_values().size()]);
  samples.set_config(config);
  try {
    const hub::LoadedModel loaded = hub::load_model(samples.folder(chosen));
    run(*loaded.model);
  } catch (const FileError&) {
    return;
  }
}

} // namespace eg::fuzz
