// The cloud's folder: blocks and what makes them.

#include "apps/stip/folders.h"

#include "core/base/json.h"
#include "core/call.h"
#include "core/ops.h"
#include "data/safetensors.h"
#include "nn/hub/fields.h"
#include "nn/init.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace eg::stip {
namespace {

constexpr const char* format_name = "equigrad-stip-cloud";

nlohmann::ordered_json rotary_json(const nn::RotaryConfig& r) {
  return {{"base", r.base},
          {"interleaved", r.interleaved},
          {"dims", r.dims},
          {"frequencies", r.frequencies},
          {"amplitude", r.amplitude},
          {"dynamic_factor", r.dynamic_factor},
          {"trained_positions", r.trained_positions}};
}

nlohmann::ordered_json config_json(const CloudConfig& c) {
  const nn::BlockConfig& b = c.block;
  nlohmann::ordered_json json{{"format", format_name},
                              {"version", 1},
                              {"id", c.id},
                              {"layers", c.layers},
                              {"positions", c.positions},
                              {"dim", b.dim},
                              {"heads", b.heads},
                              {"head_dim", b.width_of_head()},
                              {"kv_heads", b.attention().key_heads()},
                              {"mlp", b.mlp},
                              {"activation", nn::name_of(b.activation)},
                              {"gated", b.gated},
                              {"norm", b.norm == nn::NormKind::rms ? "rms" : "layer"},
                              {"pre_norm", b.pre_norm},
                              {"norm_eps", b.norm_eps},
                              {"qkv_bias", b.qkv_bias},
                              {"proj_bias", b.proj_bias},
                              {"mlp_bias", b.mlp_bias},
                              {"causal", b.causal},
                              {"attention_scales", c.scales}};
  if (b.rotary.on) json["rotary"] = rotary_json(b.rotary);
  return json;
}

std::vector<double> numbers(const nlohmann::json& json, const char* name, const hub::Fields& fields) {
  if (!json.contains(name)) return {};
  std::vector<double> all;
  if (!json[name].is_array()) fields.refuse(name, "must be a list of numbers");
  for (const nlohmann::json& value : json[name]) {
    if (!value.is_number()) fields.refuse(name, "must be a list of numbers");
    all.push_back(value.get<double>());
  }
  return all;
}

nn::RotaryConfig rotary_of(const nlohmann::json& json, const std::string& source) {
  const hub::Fields f(json, source);
  f.allow({"base", "interleaved", "dims", "frequencies", "amplitude", "dynamic_factor", "trained_positions"});
  nn::RotaryConfig r;
  r.on = true;
  r.base = f.real("base", r.base);
  r.interleaved = f.flag("interleaved", false);
  r.dims = f.integer("dims", 0);
  r.frequencies = numbers(json, "frequencies", f);
  r.amplitude = f.real("amplitude", 1.0);
  r.dynamic_factor = f.real("dynamic_factor", 0.0);
  r.trained_positions = f.integer("trained_positions", 0);
  return r;
}

nn::BlockConfig block_of(const nlohmann::json& json, const hub::Fields& f, const std::string& source) {
  nn::BlockConfig b;
  b.dim = f.integer("dim");
  b.heads = f.integer("heads");
  b.head_dim = f.integer("head_dim");
  b.kv_heads = f.integer("kv_heads");
  b.mlp = f.integer("mlp");
  b.activation = nn::activation_named(f.text("activation", "gelu"));
  b.gated = f.flag("gated", false);
  const std::string norm = f.text("norm", "layer");
  if (norm != "layer" && norm != "rms") f.refuse("norm", fmt::format("is '{}', neither layer nor rms", norm));
  b.norm = norm == "rms" ? nn::NormKind::rms : nn::NormKind::layer;
  b.pre_norm = f.flag("pre_norm", true);
  b.norm_eps = f.real("norm_eps", b.norm_eps);
  b.qkv_bias = f.flag("qkv_bias", true);
  b.proj_bias = f.flag("proj_bias", true);
  b.mlp_bias = f.flag("mlp_bias", true);
  b.causal = f.flag("causal", false);
  if (json.contains("rotary")) b.rotary = rotary_of(json["rotary"], source + ": rotary");
  return b;
}

CloudConfig config_of(const nlohmann::json& json, const std::string& source) {
  const hub::Fields f(json, source);
  if (f.text("format", "") != format_name || f.integer("version", 0) != 1)
    throw FileError(source + ": is no cloud's folder of STIP that this program knows");
  f.allow({"format", "version",          "id",       "layers",   "positions",  "dim",
           "heads",  "head_dim",         "kv_heads", "mlp",      "activation", "gated",
           "norm",   "pre_norm",         "norm_eps", "qkv_bias", "proj_bias",  "mlp_bias",
           "causal", "attention_scales", "rotary"});
  CloudConfig c;
  c.id = f.text("id", "");
  c.layers = f.integer("layers");
  c.positions = f.integer("positions");
  c.block = block_of(json, f, source);
  c.scales = numbers(json, "attention_scales", f);
  if (c.layers < 1 || c.layers > 4096) f.refuse("layers", fmt::format("is {}, not from 1 to 4096", c.layers));
  if (c.positions < 1) f.refuse("positions", fmt::format("is {}", c.positions));
  if (static_cast<std::int64_t>(c.scales.size()) != c.layers)
    f.refuse("attention_scales", fmt::format("has {} numbers for {} layers", c.scales.size(), c.layers));
  nn::check(c.block);
  return c;
}

/// Refuses a config whose blocks are larger than the file, before memory is taken.
void need_room(const CloudConfig& c, const data::TensorReader& file) {
  const nn::BlockConfig& b = c.block;
  const auto dim = static_cast<double>(b.dim), width = static_cast<double>(b.heads) * static_cast<double>(b.head_dim);
  const double wanted = static_cast<double>(c.layers) * dim * 2.0 * (width + static_cast<double>(b.mlp));
  double held = 0.0;
  for (const data::TensorInfo& info : file.tensors()) held += static_cast<double>(info.numel());
  if (wanted > held)
    throw FileError(
        fmt::format("{}: holds {:.0f} numbers, stip.json asks for at least {:.0f}", file.path(), held, wanted));
}

nn::BlockConfig layer_of(const CloudConfig& c, std::int64_t layer) {
  nn::BlockConfig block = c.block;
  block.attention_scale = c.scales[static_cast<std::size_t>(layer)];
  return block;
}

void load(nn::Block& block, const std::string& prefix, const data::TensorReader& file) {
  nn::StateDict state;
  for (const auto& [name, value] : block.state_dict()) {
    const data::TensorInfo* info = file.find(prefix + name);
    if (info == nullptr) throw FileError(fmt::format("{}: the tensor {}{} is missing", file.path(), prefix, name));
    const Tensor read = file.read(prefix + name, {.widen = true});
    if (read.shape() != value.shape())
      throw FileError(
          fmt::format("{}: {}{} is {}, not {}", file.path(), prefix, name, read.shape().str(), value.shape().str()));
    if (all(isfinite(read)).item() == 0.0)
      throw FileError(fmt::format("{}: {}{} holds NaN or infinite values", file.path(), prefix, name));
    state.emplace_back(name, read.to(value.dtype()));
  }
  block.load_state_dict(state);
}

} // namespace

void write_cloud(const std::string& folder, const CloudConfig& config, const nn::Blocks& blocks) {
  data::NamedTensors tensors;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    for (const auto& [name, value] : blocks[i]->state_dict())
      tensors.emplace_back(fmt::format("blocks.{}.{}", i, name), value);
  data::save_safetensors(join_path(folder, "model.safetensors"), tensors);
  write_json(join_path(folder, stip_file), config_json(config));
}

CloudModel open_cloud(const std::string& folder, DType dtype) {
  const std::string source = join_path(folder, stip_file);
  CloudModel cloud;
  cloud.dtype = dtype;
  if (!file_exists(source))
    throw FileError(fmt::format("{}: is no cloud's folder of STIP (there is no {}); equigrad stip transform makes one",
                                folder, stip_file));
  const data::TensorReader file = data::open_tensors(join_path(folder, "model.safetensors"));
  try {
    cloud.config = config_of(read_json(source), source);
  } catch (const ValueError& e) {
    throw FileError(fmt::format("{}: {}", source, e.what()));
  }
  need_room(cloud.config, file);
  const nn::init::SkipScope read_below;
  for (std::int64_t layer = 0; layer < cloud.config.layers; ++layer) {
    nn::Block& block =
        *cloud.blocks.emplace_back(std::make_unique<nn::Block>(layer_of(cloud.config, layer), RandomKey{}));
    block.to(dtype);
    block.eval();
    load(block, fmt::format("blocks.{}.", layer), file);
  }
  // A tensor that no block has: stip.json is not what the weights were made for.
  std::size_t known = 0;
  for (const auto& block : cloud.blocks) known += block->state_dict().size();
  if (file.tensors().size() != known)
    throw FileError(fmt::format("{}: {} tensors, where the blocks of {} have {}", file.path(), file.tensors().size(),
                                source, known));
  return cloud;
}

} // namespace eg::stip
