#include "permute/vit_key.h"

#include "core/ops.h"

#include <cmath>
#include <fmt/format.h>

namespace eg::permute {
namespace {

std::int64_t head_dim_of(const nn::BlockConfig& config) {
  return config.head_dim > 0 ? config.head_dim : config.dim / config.heads;
}

std::int64_t inner_of(const nn::BlockConfig& config) { return config.heads * head_dim_of(config); }

std::string layer_prefix(std::int64_t layer) { return fmt::format("blocks.{}.", layer); }

/// Rows of the fused projection: (Q or K or V, head, inner).
Permutation fused(const Permutation& qk, const Permutation& v) {
  std::vector<std::int64_t> gather;
  gather.reserve(static_cast<std::size_t>(3 * qk.size()));
  for (std::int64_t which = 0; which < 3; ++which)
    for (const std::int64_t from : (which < 2 ? qk : v).gather()) gather.push_back(which * qk.size() + from);
  return Permutation(std::move(gather));
}

/// The axis maps below are those of an encoder block: every head has its own keys, tokens do not turn, norms have a
/// bias.
void need_encoder(const nn::BlockConfig& c) {
  const char* const what = c.kv_heads != 0 && c.kv_heads != c.heads     ? "shared key heads"
                           : c.rotary.on                                ? "rotary positions"
                           : c.gated                                    ? "a gated MLP"
                           : c.norm != nn::NormKind::layer              ? "RMSNorm"
                           : !c.qkv_bias || !c.proj_bias || !c.mlp_bias ? "layers without bias"
                                                                        : nullptr;
  if (what != nullptr) throw ValueError(fmt::format("key: blocks with {} have no key of this kind", what));
}

void need_square(const nn::BlockConfig& config, KeyForm form) {
  if (inner_of(config) != config.dim)
    throw ValueError(
        fmt::format("key: form \"{}\" ties the inner axis to the residual, which needs heads * head_dim == "
                    "dim: {} * {} is not {}; use \"decoupled\"",
                    name_of(form), config.heads, head_dim_of(config), config.dim));
}

Permutation draw_block(const nn::BlockConfig& config, const Permutation& head_map, const PermutationSource& source,
                       const std::string& site) {
  std::vector<Permutation> within;
  for (std::int64_t h = 0; h < config.heads; ++h)
    within.push_back(source(head_dim_of(config), fmt::format("{}.head.{}", site, h)));
  return block_permutation(head_map, within);
}

Permutation draw_tied(const nn::BlockConfig& config, KeyForm form, const PermutationSource& source) {
  need_square(config, form);
  const Permutation head_map = source(config.heads, "residual.heads");
  if (form == KeyForm::tied) return draw_block(config, head_map, source, "residual");
  const Permutation one = source(head_dim_of(config), "residual.head");
  return block_permutation(head_map, std::vector<Permutation>(static_cast<std::size_t>(config.heads), one));
}

BlockKey draw_inner(const nn::BlockConfig& config, std::int64_t layer, const PermutationSource& source) {
  const std::string prefix = layer_prefix(layer);
  const Permutation head_map = source(config.heads, prefix + "heads");
  return {draw_block(config, head_map, source, prefix + "qk"), draw_block(config, head_map, source, prefix + "v"),
          source(config.mlp, prefix + "hidden")};
}

double log2_factorial(std::int64_t n) { return std::lgamma(static_cast<double>(n) + 1.0) / std::log(2.0); }

} // namespace

KeyForm key_form_named(std::string_view name) {
  for (const KeyForm form : {KeyForm::paper, KeyForm::tied, KeyForm::decoupled, KeyForm::residual})
    if (name_of(form) == name) return form;
  throw ValueError(fmt::format("key: unknown form \"{}\"; known are paper, tied, decoupled, residual", name));
}

std::string_view name_of(KeyForm form) {
  switch (form) {
  case KeyForm::paper:
    return "paper";
  case KeyForm::tied:
    return "tied";
  case KeyForm::decoupled:
    return "decoupled";
  case KeyForm::residual:
    return "residual";
  }
  return "?";
}

Permutation block_permutation(const Permutation& head_map, const std::vector<Permutation>& within) {
  if (static_cast<std::int64_t>(within.size()) != head_map.size())
    throw ValueError(fmt::format("permutation: {} heads move, but {} within-head permutations are given",
                                 head_map.size(), within.size()));
  const std::int64_t block = within.empty() ? 0 : within.front().size();
  std::vector<std::int64_t> gather;
  for (std::size_t h = 0; h < within.size(); ++h) {
    if (within[h].size() != block)
      throw ValueError(
          fmt::format("permutation: within-head permutations differ in size: {} and {}", block, within[h].size()));
    for (const std::int64_t from : within[h].gather())
      gather.push_back(head_map[static_cast<std::int64_t>(h)] * block + from);
  }
  return Permutation(std::move(gather));
}

bool is_block_permutation(const Permutation& p, std::int64_t block) {
  if (block <= 0 || p.size() % block != 0) return false;
  for (std::int64_t i = 0; i < p.size(); ++i)
    if (p[i] / block != p[i / block * block] / block) return false;
  return true;
}

VitKey VitKey::draw(const nn::BlockConfig& config, std::int64_t layers, KeyForm form, const PermutationSource& source) {
  need_encoder(config);
  VitKey key = identity(config, layers);
  if (form == KeyForm::decoupled || form == KeyForm::residual) {
    key.residual = source(config.dim, "residual");
  } else {
    key.residual = draw_tied(config, form, source);
    for (BlockKey& block : key.blocks) block.qk = block.v = key.residual;
  }
  if (form == KeyForm::decoupled)
    for (std::int64_t layer = 0; layer < layers; ++layer)
      key.blocks[static_cast<std::size_t>(layer)] = draw_inner(config, layer, source);
  return key;
}

VitKey VitKey::random(const nn::BlockConfig& config, std::int64_t layers, KeyForm form, RandomKey key) {
  return draw(config, layers, form, public_source(key));
}

VitKey VitKey::identity(const nn::BlockConfig& config, std::int64_t layers) {
  const BlockKey block = {Permutation::identity(inner_of(config)), Permutation::identity(inner_of(config)),
                          Permutation::identity(config.mlp)};
  return {Permutation::identity(config.dim), std::vector<BlockKey>(static_cast<std::size_t>(layers), block)};
}

VitKey VitKey::inverse() const {
  VitKey result{residual.inverse(), {}};
  for (const BlockKey& block : blocks)
    result.blocks.push_back({block.qk.inverse(), block.v.inverse(), block.hidden.inverse()});
  return result;
}

PermutationSet VitKey::permutations(const nn::BlockConfig& config) const {
  const auto check = [](std::string_view what, const Permutation& p, std::int64_t size) {
    if (p.size() != size)
      throw ValueError(fmt::format("key: the {} permutation has {} elements, the model {}", what, p.size(), size));
  };
  check("residual", residual, config.dim);
  PermutationSet set{{"residual", residual}};
  for (std::size_t layer = 0; layer < blocks.size(); ++layer) {
    const BlockKey& block = blocks[layer];
    check("qk", block.qk, inner_of(config));
    check("v", block.v, inner_of(config));
    check("hidden", block.hidden, config.mlp);
    const std::string prefix = layer_prefix(static_cast<std::int64_t>(layer));
    set.emplace(prefix + "qkv", fused(block.qk, block.v));
    set.emplace(prefix + "v", block.v);
    set.emplace(prefix + "hidden", block.hidden);
  }
  return set;
}

Tensor VitKey::apply_columns(const Tensor& z) const { return permute_columns(z, residual.tensor()); }

Tensor VitKey::undo_columns(const Tensor& z) const { return permute_columns(z, residual.inverse().tensor()); }

AxisMap block_axes(std::int64_t layer, std::string_view prefix) {
  const std::string group = layer_prefix(layer);
  const std::string qkv = group + "qkv", v = group + "v", hidden = group + "hidden", residual = "residual";
  const AxisMap local = {
      {"norm1.weight", {residual}},
      {"norm1.bias", {residual}},
      {"attention.qkv.weight", {qkv, residual}},
      {"attention.qkv.bias", {qkv}},
      {"attention.proj.weight", {residual, v}},
      {"attention.proj.bias", {residual}},
      {"norm2.weight", {residual}},
      {"norm2.bias", {residual}},
      {"mlp.fc1.weight", {hidden, residual}},
      {"mlp.fc1.bias", {hidden}},
      {"mlp.fc2.weight", {residual, hidden}},
      {"mlp.fc2.bias", {residual}},
  };
  AxisMap named;
  for (const ParameterAxes& axes : local) named.push_back({std::string(prefix) + axes.parameter, axes.groups});
  return named;
}

AxisMap vit_axes(const nn::VitConfig& config, KeyScope scope) {
  need_encoder(config.encoder);
  AxisMap map;
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    for (ParameterAxes& axes : block_axes(layer, layer_prefix(layer))) map.push_back(std::move(axes));
  if (scope == KeyScope::encoder) return map;
  if (config.position == nn::PositionEmbedding::sinusoidal)
    throw ValueError("key: a sinusoidal position embedding is a constant and cannot be permuted with the model; use "
                     "scope encoder, or learned positions");
  map.push_back({"patch_embedding.weight", {"residual", ""}});
  map.push_back({"patch_embedding.bias", {"residual"}});
  if (config.pooling == nn::Pooling::cls) map.push_back({"cls_token", {"", "", "residual"}});
  if (config.position == nn::PositionEmbedding::learned) map.push_back({"position_embedding", {"", "", "residual"}});
  if (config.distillation) map.push_back({"distillation_token", {"", "", "residual"}});
  map.push_back({"norm.weight", {"residual"}});
  map.push_back({"norm.bias", {"residual"}});
  if (config.classes > 0) map.push_back({"classifier.weight", {"", "residual"}});
  if (config.classes > 0 && config.distillation && config.distillation_head)
    map.push_back({"distillation_classifier.weight", {"", "residual"}});
  if (config.pooler > 0) map.push_back({"pooler.weight", {"", "residual"}});
  return map;
}

double key_space_log2(const nn::BlockConfig& config, std::int64_t layers, KeyForm form) {
  const auto heads = static_cast<double>(config.heads);
  const double wreath = heads * log2_factorial(head_dim_of(config));
  const double head_moves = log2_factorial(config.heads);
  switch (form) {
  case KeyForm::paper:
    return log2_factorial(head_dim_of(config)) + head_moves;
  case KeyForm::tied:
    return wreath + head_moves;
  case KeyForm::residual:
    return log2_factorial(config.dim);
  case KeyForm::decoupled:
    return log2_factorial(config.dim) +
           static_cast<double>(layers) * (2.0 * wreath + head_moves + log2_factorial(config.mlp));
  }
  return 0.0;
}

Tensor row_permutations(std::int64_t samples, std::int64_t tokens, RandomKey key) {
  std::vector<std::int64_t> rows;
  rows.reserve(static_cast<std::size_t>(samples * tokens));
  for (std::int64_t s = 0; s < samples; ++s) {
    const Permutation p = Permutation::random_nonidentity(tokens, key.fold(static_cast<std::uint64_t>(s)));
    rows.insert(rows.end(), p.gather().begin(), p.gather().end());
  }
  return Tensor::from<std::int64_t>(rows, Shape{samples, tokens});
}

} // namespace eg::permute
