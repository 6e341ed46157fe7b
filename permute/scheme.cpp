#include "permute/scheme.h"

#include "permute/least_squares.h"

#include "core/base/words.h"
#include "core/call.h"
#include "core/ops.h"
#include "permute/blocks_key.h"
#include "permute/count.h"

#include <array>
#include <cmath>
#include <fmt/format.h>

namespace eg::permute {
namespace {

constexpr std::array all{
    SchemeInfo{Scheme::none, "none", "plain weights and features", false, Columns::plain},
    SchemeInfo{Scheme::row, "row", "tokens in a fresh order for every query", true, Columns::plain},
    SchemeInfo{Scheme::tied, "tied", "features by one P_C on every axis, heads kept", false, Columns::tied},
    SchemeInfo{Scheme::decoupled, "decoupled", "any P_C on the residual, own permutations inside", false,
               Columns::decoupled},
    SchemeInfo{Scheme::both, "both", "row and decoupled", true, Columns::decoupled},
    SchemeInfo{Scheme::stip1, "stip1", "STIP's first version: the residual alone", false, Columns::residual},
    SchemeInfo{Scheme::stip2, "stip2", "STIP's second version: inner permutations within heads too", false,
               Columns::within_heads},
    SchemeInfo{Scheme::orthogonal, "orthogonal", "an orthogonal map of the residual (RMSNorm)", false,
               Columns::orthogonal},
    SchemeInfo{Scheme::noise, "noise", "Gaussian noise on the features", false, Columns::plain, true},
    SchemeInfo{Scheme::stip2_noise, "stip2+noise", "STIP's second version with Gaussian noise on the features", false,
               Columns::within_heads, true},
};

/// Whether Q and K may be permuted within heads, each for itself.
bool free_queries(const BlockWeights& v) { return !v.block.rotary.on && v.kv_heads() == v.block.heads; }

struct Groups {
  std::string qk, v, o, hidden;
};

Groups groups_of(const BlockWeights& v, Columns columns, const std::string& prefix) {
  if (columns == Columns::tied) return {"residual", "residual", "residual", ""};
  if (columns == Columns::residual || columns == Columns::plain) return {};
  const bool shared = v.kv_heads() != v.block.heads;
  return {free_queries(v) ? prefix + "qk" : "", prefix + "v", prefix + (shared ? "o" : "v"), prefix + "hidden"};
}

void add_block(AxisMap& map, const BlockWeights& v, Columns columns, std::int64_t layer) {
  const std::string prefix = fmt::format("blocks.{}.", layer), residual = "residual";
  const Groups g = groups_of(v, columns, prefix);
  const AxisMap every = {{"q", {g.qk, residual}},        {"q.bias", {g.qk}},
                         {"k", {g.qk, residual}},        {"k.bias", {g.qk}},
                         {"v", {g.v, residual}},         {"v.bias", {g.v}},
                         {"o", {residual, g.o}},         {"o.bias", {residual}},
                         {"gate", {g.hidden, residual}}, {"gate.bias", {g.hidden}},
                         {"up", {g.hidden, residual}},   {"up.bias", {g.hidden}},
                         {"down", {residual, g.hidden}}, {"down.bias", {residual}},
                         {"norm1.weight", {residual}},   {"norm1.bias", {residual}},
                         {"norm2.weight", {residual}},   {"norm2.bias", {residual}}};
  for (const ParameterAxes& axes : every)
    for (const auto& [name, value] : v.weights)
      if (name == prefix + axes.parameter) map.push_back({name, axes.groups});
}

/// Heads that move as wholes (or stay), a permutation within each.
Permutation inner_permutation(const Permutation& heads, std::int64_t width, const PermutationSource& source,
                              const std::string& site) {
  std::vector<Permutation> within;
  for (std::int64_t h = 0; h < heads.size(); ++h) within.push_back(source(width, fmt::format("{}.head.{}", site, h)));
  return block_permutation(heads, within);
}

/// Columns of "o" where several query heads read one value head.
Permutation repeated(const Permutation& v, std::int64_t width, std::int64_t heads, std::int64_t kv_heads) {
  std::vector<std::int64_t> gather;
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t from = h / (heads / kv_heads);
    for (std::int64_t i = 0; i < width; ++i) gather.push_back(h * width + v[from * width + i] - from * width);
  }
  return Permutation(std::move(gather));
}

void draw_inner(PermutationSet& key, const BlockWeights& v, Columns columns, const PermutationSource& source,
                std::int64_t layer) {
  const std::string prefix = fmt::format("blocks.{}.", layer);
  const std::int64_t width = v.block.width_of_head();
  const bool moves_heads = columns == Columns::decoupled && free_queries(v);
  const Permutation heads = moves_heads ? source(v.kv_heads(), prefix + "heads") : Permutation::identity(v.kv_heads());
  if (free_queries(v)) key.emplace(prefix + "qk", inner_permutation(heads, width, source, prefix + "qk"));
  const Permutation values = inner_permutation(heads, width, source, prefix + "v");
  if (v.kv_heads() != v.block.heads) key.emplace(prefix + "o", repeated(values, width, v.block.heads, v.kv_heads()));
  key.emplace(prefix + "v", values);
  key.emplace(prefix + "hidden", source(v.block.mlp, prefix + "hidden"));
}

PermutationSet draw_key(const BlockWeights& v, Columns columns, const PermutationSource& source) {
  PermutationSet key;
  if (columns == Columns::tied) {
    const Permutation heads = source(v.block.heads, "residual.heads");
    key.emplace("residual", inner_permutation(heads, v.block.width_of_head(), source, "residual"));
    return key;
  }
  key.emplace("residual", source(v.block.dim, "residual"));
  if (columns == Columns::residual) return key;
  for (std::int64_t layer = 0; layer < v.layers; ++layer) draw_inner(key, v, columns, source, layer);
  return key;
}

/// W Q where a matrix reads the stream, Q^T W where it writes to it.
ObfuscatedModel rotated(const BlockWeights& v, RandomKey key) {
  ObfuscatedModel h{.weights = {}, .axes = {}, .key = {}, .map = {}};
  h.map = random_orthogonal(v.block.dim, key);
  for (const auto& [name, w] : folded_gains(v)) {
    const bool writes = name.ends_with(".o") || name.ends_with(".down");
    const bool reads = w.rank() == 2 && !writes;
    h.weights.emplace_back(name, reads ? matmul(w, h.map) : writes ? matmul(h.map, w, true) : w);
  }
  return h;
}

} // namespace

std::span<const SchemeInfo> schemes() { return all; }

const SchemeInfo& info_of(Scheme scheme) { return all[static_cast<std::size_t>(scheme)]; }

const SchemeInfo& scheme_named(const std::string& name) {
  std::vector<std::string> names;
  std::string listed;
  for (const SchemeInfo& info : all) {
    if (name == info.name) return info;
    names.emplace_back(info.name);
    listed += fmt::format("{}{}", listed.empty() ? "" : ", ", info.name);
  }
  const std::string hint = did_you_mean(name, names);
  throw ValueError(
      fmt::format("there is no scheme '{}'{} there are {}", name, hint.empty() ? ";" : hint + ";", listed));
}

std::string incompatible_because(const BlockWeights& v, Columns columns) {
  if (columns == Columns::tied && (v.inner() != v.block.dim || !free_queries(v)))
    return "the model's heads cannot carry the residual's permutation (rotary positions, shared key heads, or heads of "
           "another width)";
  if (columns == Columns::orthogonal &&
      (v.block.norm != nn::NormKind::rms || v.block.proj_bias || v.block.mlp_bias || !v.block.pre_norm))
    return "only RMSNorm before every branch, without biases, commutes with an orthogonal map";
  return {};
}

AxisMap axes_of(const BlockWeights& model, Columns columns) {
  if (const std::string why = incompatible_because(model, columns); !why.empty()) throw ValueError("key: " + why);
  AxisMap map;
  if (columns == Columns::plain || columns == Columns::orthogonal) return map;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) add_block(map, model, columns, layer);
  return map;
}

double log2_count(const BlockWeights& v, Columns columns) {
  const double within = log2_factorial(v.block.width_of_head());
  if (columns == Columns::plain || columns == Columns::orthogonal) return 0.0;
  if (columns == Columns::tied) return static_cast<double>(v.block.heads) * within + log2_factorial(v.block.heads);
  double bits = log2_factorial(v.block.dim);
  if (columns == Columns::residual) return bits;
  const auto kv_heads = static_cast<double>(v.kv_heads());
  const double heads = columns == Columns::decoupled && free_queries(v) ? log2_factorial(v.kv_heads()) : 0.0;
  const double layer = heads + kv_heads * within * (free_queries(v) ? 2.0 : 1.0) + log2_factorial(v.block.mlp);
  return bits + static_cast<double>(v.layers) * layer;
}

Tensor ObfuscatedModel::enter(const Tensor& z) const {
  const PauseRecording pause;
  if (map.defined()) return matmul(z, map);
  const auto at = key.find("residual");
  return at == key.end() ? z : at->second.apply(z, -1);
}

nn::StateDict folded_gains(const BlockWeights& model) {
  const PauseRecording pause;
  nn::StateDict weights;
  for (const auto& [name, w] : model.weights) {
    const std::string prefix = name.substr(0, name.find('.', 7) + 1), part = name.substr(prefix.size());
    Tensor folded = w;
    if (part == "q" || part == "k" || part == "v") folded = w * weight_named(model.weights, prefix + "norm1.weight");
    if (part == "gate" || part == "up") folded = w * weight_named(model.weights, prefix + "norm2.weight");
    if (part == "norm1.weight" || part == "norm2.weight") folded = Tensor::ones(w.shape(), w.dtype());
    weights.emplace_back(name, folded);
  }
  return weights;
}

ObfuscatedModel obfuscate(const BlockWeights& model, Columns columns, const PermutationSource& source, RandomKey key) {
  const PauseRecording pause;
  ObfuscatedModel h{.weights = model.weights, .axes = axes_of(model, columns), .key = {}, .map = {}};
  if (columns == Columns::plain) return h;
  if (columns == Columns::orthogonal) return rotated(model, key);
  h.key = draw_key(model, columns, source);
  h.weights = transform(model.weights, h.axes, h.key);
  return h;
}

} // namespace eg::permute
