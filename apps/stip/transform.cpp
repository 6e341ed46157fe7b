#include "apps/stip/transform.h"

#include "apps/stip/folders.h"
#include "core/base/bytes.h"
#include "core/base/interrupt.h"
#include "core/base/json.h"
#include "core/base/new_folder.h"
#include "core/call.h"
#include "data/safetensors.h"
#include "nn/hub/folder.h"
#include "nn/hub/llama2c.h"
#include "permute/digest.h"
#include "permute/key.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>

namespace eg::stip {
namespace {

std::unique_ptr<hub::Model> opened(const std::string& path) {
  std::unique_ptr<hub::Model> model = file_exists(path) ? hub::load_llama2c(path) : hub::load_model(path).model;
  if (model->blocks().empty()) throw FileError(path + ": the model has no blocks, so there is nothing for a cloud");
  return model;
}

/// The residual's permutation from the key that the user gets, all others from one that is discarded.
permute::PermutationSource source_of(const permute::SecretKey& kept, const permute::SecretKey& forgotten,
                                     const std::string& id) {
  return [residual = kept.source(id), inner = forgotten.source(id)](std::int64_t size, std::string_view site) {
    return site == "residual" ? residual(size, site) : inner(size, site);
  };
}

permute::BlockWeights parts_of(const std::string& name, const nn::Blocks& blocks) {
  return {.name = name,
          .block = blocks.front()->config,
          .layers = static_cast<std::int64_t>(blocks.size()),
          .weights = permute::separate_weights(blocks, blocks.front()->parameters().front().dtype()),
          .pictures = {},
          .text = {}};
}

CloudConfig config_of(const hub::Model& model, const std::string& id) {
  CloudConfig c;
  c.id = id;
  c.layers = static_cast<std::int64_t>(model.blocks().size());
  c.positions = model.positions();
  c.block = model.blocks().front()->config;
  for (const auto& block : model.blocks()) c.scales.push_back(block->config.attention_scale);
  return c;
}

/// The config of the same model without blocks.
nlohmann::json without_blocks(const hub::Model& model) {
  nlohmann::json config = model.config();
  if (model.family() == "timm")
    config["model_args"]["depth"] = 0;
  else
    config[model.family() == "gpt2" ? "n_layer" : "num_hidden_layers"] = 0;
  config.erase("dtype");
  config["torch_dtype"] = model.module().parameters().front().dtype() == DType::f64 ? "float64" : "float32";
  return config;
}

/// Everything but the blocks. Returns how many numbers that are.
std::int64_t write_user(const std::string& folder, const hub::Model& model, const std::string& id,
                        const std::vector<std::string>& copies) {
  data::NamedTensors tensors;
  std::int64_t count = 0;
  const nn::StateDict state = model.module().state_dict();
  for (const hub::Binding& b : model.bindings()) {
    if (b.parameter.starts_with("blocks.")) continue;
    for (const auto& [name, value] : state)
      if (name == b.parameter) tensors.emplace_back(b.file, hub::extract(value, b));
    count += tensors.back().second.numel();
  }
  data::save_safetensors(join_path(folder, "model.safetensors"), tensors, {{"format", "pt"}});
  write_json(join_path(folder, "config.json"), without_blocks(model));
  const nlohmann::ordered_json stip{{"format", "equigrad-stip-user"},
                                    {"version", 1},
                                    {"id", id},
                                    {"dim", model.blocks().front()->config.dim},
                                    {"layers", model.blocks().size()}};
  write_json(join_path(folder, stip_file), stip);
  for (const std::string& path : copies) {
    const Bytes bytes = read_file(path);
    write_file(join_path(folder, std::filesystem::path(path).filename().string()),
               ByteView(bytes.data(), bytes.size()));
  }
  return count;
}

} // namespace

Transformed transform_for_stip(const TransformJob& job) {
  if (job.scheme != permute::Scheme::stip1 && job.scheme != permute::Scheme::stip2)
    throw ValueError(fmt::format("stip: '{}' is not one of stip1, stip2", info_of(job.scheme).name));
  const PauseRecording pause;
  NewFolder out(job.out);
  const std::unique_ptr<hub::Model> model = opened(job.model);
  const std::string id = permute::fresh_name("stip");
  const std::int64_t dim = model->blocks().front()->config.dim;
  const permute::SecretKey kept = permute::SecretKey::generate(stip_key_label(id, dim));
  const permute::SecretKey forgotten = permute::SecretKey::generate();
  const permute::BlockWeights parts = parts_of(job.model, model->blocks());
  const permute::Columns columns = info_of(job.scheme).columns;
  const permute::ObfuscatedModel hidden = permute::obfuscate(parts, columns, source_of(kept, forgotten, id), {});
  const nn::Blocks blocks = permute::blocks_with(parts.block, parts.layers, hidden.weights);

  Transformed result{.id = id,
                     .fingerprint = kept.fingerprint(),
                     .architecture = model->architecture(),
                     .layers = parts.layers,
                     .dim = dim,
                     .log2_count = permute::log2_count(parts, columns)};
  for (const auto& block : blocks) result.cloud_parameters += block->parameter_count();
  poll_interrupt();
  write_cloud(out.make_folder("cloud"), config_of(*model, id), blocks);
  const std::string user = out.make_folder("user");
  result.user_parameters = write_user(user, *model, id, job.copies);
  kept.save(join_path(user, stip_key_file));
  out.keep();
  return result;
}

} // namespace eg::stip
