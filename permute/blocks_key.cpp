#include "permute/blocks_key.h"

#include "core/base/named_values.h"
#include "core/ops.h"
#include "permute/count.h"

#include <cmath>
#include <fmt/format.h>

namespace eg::permute {
namespace {

std::int64_t head_dim_of(const nn::BlockConfig& config) {
  return config.head_dim > 0 ? config.head_dim : config.dim / config.heads;
}

std::int64_t inner_of(const nn::BlockConfig& config) { return config.heads * head_dim_of(config); }

std::string layer_prefix(std::int64_t layer) { return fmt::format("blocks.{}.", layer); }

std::int64_t kv_heads_of(const nn::BlockConfig& config) { return config.kv_heads > 0 ? config.kv_heads : config.heads; }

/// One permutation behind another: p over the first elements, q over the rest.
Permutation joined(std::initializer_list<const Permutation*> parts) {
  std::vector<std::int64_t> gather;
  for (const Permutation* part : parts) {
    const auto begin = std::ssize(gather);
    for (const std::int64_t from : part->gather()) gather.push_back(begin + from);
  }
  return Permutation(std::move(gather));
}

/// What a permutation of the query heads' features does to those of the key heads that they share.
Permutation of_shared_heads(const Permutation& p, const nn::BlockConfig& config) {
  const std::int64_t width = head_dim_of(config), kv = kv_heads_of(config), queries = config.heads / kv;
  std::vector<std::int64_t> gather;
  for (std::int64_t head = 0; head < kv; ++head)
    for (std::int64_t i = 0; i < width; ++i) {
      const std::int64_t from = p[head * queries * width + i];
      gather.push_back(from / width / queries * width + from % width);
    }
  return Permutation(std::move(gather));
}

/// Throws ValueError for blocks that the papers' forms, which tie the inner axes to the residual, do not know.
void need_papers_block(const nn::BlockConfig& c, KeyForm form) {
  const char* const what = kv_heads_of(c) != c.heads ? "shared key heads"
                           : c.rotary.on             ? "rotary positions"
                           : c.gated                 ? "a gated MLP"
                                                     : nullptr;
  if (what != nullptr)
    throw ValueError(fmt::format(
        "key: blocks with {} have no key of the form \"{}\"; use \"decoupled\" or \"residual\"", what, name_of(form)));
}

void need_square(const nn::BlockConfig& config, KeyForm form) {
  if (inner_of(config) != config.dim)
    throw ValueError(
        fmt::format("key: form \"{}\" ties the inner axis to the residual, which needs heads * head_dim == "
                    "dim: {} * {} is not {}; use \"decoupled\"",
                    name_of(form), config.heads, head_dim_of(config), config.dim));
}

/// Heads of a group that share keys move alike within.
Permutation draw_block(const nn::BlockConfig& config, const Permutation& head_map, const PermutationSource& source,
                       const std::string& site) {
  const std::int64_t kv = kv_heads_of(config), queries = config.heads / kv;
  std::vector<Permutation> within;
  for (std::int64_t group = 0; group < kv; ++group) {
    const Permutation one = source(head_dim_of(config), fmt::format("{}.head.{}", site, group));
    within.insert(within.end(), static_cast<std::size_t>(queries), one);
  }
  return block_permutation(head_map, within);
}

/// Which head each head comes from: groups that share keys stay together.
Permutation draw_heads(const nn::BlockConfig& config, const std::string& prefix, const PermutationSource& source) {
  const std::int64_t kv = kv_heads_of(config), queries = config.heads / kv;
  const Permutation groups = source(kv, prefix + "heads");
  if (queries == 1) return groups;
  std::vector<Permutation> within;
  for (std::int64_t group = 0; group < kv; ++group)
    within.push_back(source(queries, fmt::format("{}heads.{}", prefix, group)));
  return block_permutation(groups, within);
}

Permutation draw_tied(const nn::BlockConfig& config, KeyForm form, const PermutationSource& source) {
  need_papers_block(config, form);
  need_square(config, form);
  const Permutation head_map = source(config.heads, "residual.heads");
  if (form == KeyForm::tied) return draw_block(config, head_map, source, "residual");
  const Permutation one = source(head_dim_of(config), "residual.head");
  return block_permutation(head_map, std::vector<Permutation>(static_cast<std::size_t>(config.heads), one));
}

BlockKey draw_inner(const nn::BlockConfig& config, std::int64_t layer, const PermutationSource& source) {
  const std::string prefix = layer_prefix(layer);
  const Permutation head_map = draw_heads(config, prefix, source);
  const std::vector<Permutation> as_they_are(static_cast<std::size_t>(config.heads),
                                             Permutation::identity(head_dim_of(config)));
  return {config.rotary.on ? block_permutation(head_map, as_they_are)
                           : draw_block(config, head_map, source, prefix + "qk"),
          draw_block(config, head_map, source, prefix + "v"), source(config.mlp, prefix + "hidden")};
}

constexpr NamedValues<KeyForm, 4> forms{{{"paper", KeyForm::paper},
                                         {"tied", KeyForm::tied},
                                         {"decoupled", KeyForm::decoupled},
                                         {"residual", KeyForm::residual}}};

} // namespace

KeyForm key_form_named(std::string_view name) {
  for (const auto& [word, form] : forms)
    if (word == name) return form;
  throw ValueError(fmt::format("key: unknown form \"{}\"; known are paper, tied, decoupled, residual", name));
}

std::string_view name_of(KeyForm form) { return name_in(forms, form); }

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

BlocksKey BlocksKey::draw(const nn::BlockConfig& config, std::int64_t layers, KeyForm form,
                          const PermutationSource& source) {
  BlocksKey key = identity(config, layers);
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

BlocksKey BlocksKey::random(const nn::BlockConfig& config, std::int64_t layers, KeyForm form, RandomKey key) {
  return draw(config, layers, form, public_source(key));
}

BlocksKey BlocksKey::identity(const nn::BlockConfig& config, std::int64_t layers) {
  const BlockKey block = {Permutation::identity(inner_of(config)), Permutation::identity(inner_of(config)),
                          Permutation::identity(config.mlp)};
  return {Permutation::identity(config.dim), std::vector<BlockKey>(static_cast<std::size_t>(layers), block)};
}

BlocksKey BlocksKey::inverse() const {
  BlocksKey result{residual.inverse(), {}};
  for (const BlockKey& block : blocks)
    result.blocks.push_back({block.qk.inverse(), block.v.inverse(), block.hidden.inverse()});
  return result;
}

PermutationSet BlocksKey::permutations(const nn::BlockConfig& config) const {
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
    const Permutation k = of_shared_heads(block.qk, config), v = of_shared_heads(block.v, config);
    set.emplace(prefix + "qkv", joined({&block.qk, &k, &v}));
    set.emplace(prefix + "v", block.v);
    set.emplace(prefix + "hidden", block.hidden);
    if (config.gated) set.emplace(prefix + "gate_up", joined({&block.hidden, &block.hidden}));
  }
  return set;
}

Tensor BlocksKey::apply_columns(const Tensor& z) const { return permute_columns(z, residual.tensor()); }

Tensor BlocksKey::undo_columns(const Tensor& z) const { return permute_columns(z, residual.inverse().tensor()); }

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

namespace {

/// Whether blocks of that config have the parameter: RMSNorm and some layers have no bias.
bool has_parameter(const nn::BlockConfig& c, std::string_view name) {
  if (!name.ends_with(".bias")) return true;
  if (name.find("norm") != std::string_view::npos) return c.norm == nn::NormKind::layer;
  if (name.find("qkv") != std::string_view::npos) return c.qkv_bias;
  return name.find("proj") != std::string_view::npos ? c.proj_bias : c.mlp_bias;
}

} // namespace

AxisMap blocks_axes(const nn::BlockConfig& config, std::int64_t layers) {
  AxisMap map;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    for (ParameterAxes& axes : block_axes(layer, layer_prefix(layer))) {
      if (!has_parameter(config, axes.parameter)) continue;
      if (config.gated && axes.parameter.find("mlp.fc1.") != std::string::npos)
        axes.groups.front() = layer_prefix(layer) + "gate_up";
      map.push_back(std::move(axes));
    }
  return map;
}

AxisMap vit_axes(const nn::VitConfig& config, KeyScope scope) {
  AxisMap map = blocks_axes(config.encoder, config.layers);
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

double log2_count(const nn::BlockConfig& config, std::int64_t layers, KeyForm form) {
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
