#include "permute/block_weights.h"

#include "core/call.h"
#include "core/ops.h"
#include "nn/init.h"

#include <cmath>
#include <fmt/format.h>

namespace eg::permute {
namespace {

/// A fused parameter and the parts that it is cut into along its rows.
struct Fused {
  const char* module;
  std::vector<std::pair<const char*, std::int64_t>> parts;
};

std::vector<Fused> linears_of(const nn::BlockConfig& c) {
  const std::int64_t width = c.width_of_head(), queries = c.heads * width;
  const std::int64_t keys = (c.kv_heads > 0 ? c.kv_heads : c.heads) * width;
  std::vector<Fused> linears = {{"attention.qkv", {{"q", queries}, {"k", keys}, {"v", keys}}},
                                {"attention.proj", {{"o", c.dim}}},
                                {"mlp.fc1", {{"up", c.mlp}}},
                                {"mlp.fc2", {{"down", c.dim}}}};
  if (c.gated) linears[2].parts = {{"gate", c.mlp}, {"up", c.mlp}};
  return linears;
}

constexpr const char* kinds[] = {"weight", "bias"};

/// "q", "q.bias"
std::string part_name(const std::string& prefix, const char* part, std::string_view kind) {
  return prefix + part + (kind == "bias" ? ".bias" : "");
}

bool has(const nn::StateDict& weights, const std::string& name) {
  for (const auto& [other, value] : weights)
    if (other == name) return true;
  return false;
}

Tensor drawn(const Shape& shape, RandomKey key, std::uint64_t tag, double stddev, double middle = 0.0) {
  return random_normal(shape, key.fold(tag), middle, stddev, DType::f64);
}

/// A weight of its shape: matrices 1/sqrt(in), gains about 1, biases about 0.
Tensor drawn_weight(const std::string& name, const Shape& shape, RandomKey key, std::uint64_t tag) {
  if (shape.rank() == 2) return drawn(shape, key, tag, 1.0 / std::sqrt(static_cast<double>(shape[1])));
  return drawn(shape, key, tag, 0.3, name.ends_with("weight") ? 1.0 : 0.0);
}

nn::StateDict drawn_weights(const nn::StateDict& like, RandomKey key) {
  nn::StateDict weights;
  for (const auto& [name, value] : like)
    weights.emplace_back(name, drawn_weight(name, value.shape(), key, weights.size()));
  return weights;
}

nn::Blocks empty_blocks(const nn::BlockConfig& config, std::int64_t layers, DType dtype = DType::f64) {
  const nn::init::SkipScope of_no_use;
  nn::Blocks blocks;
  for (std::int64_t i = 0; i < layers; ++i) {
    blocks.push_back(std::make_unique<nn::Block>(config, RandomKey{}));
    blocks.back()->to(dtype);
    blocks.back()->eval();
  }
  return blocks;
}

BlockWeights drawn_blocks(std::string name, const nn::BlockConfig& config, RandomKey key) {
  BlockWeights v{.name = std::move(name), .block = config, .layers = 2, .weights = {}, .pictures = {}, .text = {}};
  v.weights = drawn_weights(separate_weights(empty_blocks(config, v.layers)), key);
  return v;
}

PictureInput drawn_pictures(const PictureInput& like, RandomKey key) {
  PictureInput p = like;
  p.patch_weight =
      drawn(like.patch_weight.shape(), key, 1001, 1.0 / std::sqrt(static_cast<double>(p.patch_elements())));
  p.plain = drawn(like.plain.shape(), key, 1002, 0.3);
  p.head = drawn_weights(like.head, key.fold(1003));
  return p;
}

TextInput drawn_text(std::int64_t vocabulary, std::int64_t dim, RandomKey key) {
  const Tensor table = drawn({vocabulary, dim}, key, 1004, 1.0);
  return {
      .vocabulary = vocabulary, .embed = [table](const Tensor& ids) { return embedding(table, ids); }, .drawn = true};
}

} // namespace

Tensor PictureInput::embed(const Tensor& patches) const {
  const Tensor rows = linear(patches, patch_weight);
  const std::int64_t n = patches.size(0), dim = patch_weight.size(0);
  if (special == 0) return rows + plain;
  return concat({Tensor::zeros({n, special, dim}, DType::f64), rows}, 1) + plain;
}

Tensor PictureInput::classify(const Tensor& z) const {
  const Tensor x =
      layer_norm(z.select(1, 0), weight_named(head, "norm.weight"), weight_named(head, "norm.bias"), norm_eps);
  return linear(x, weight_named(head, "weight"), weight_named(head, "bias"));
}

const Tensor& weight_named(const nn::StateDict& weights, const std::string& name) {
  for (const auto& [other, value] : weights)
    if (other == name) return value;
  throw ValueError(fmt::format("weights: there is no {}", name));
}

nn::StateDict separate_weights(const nn::Blocks& blocks, DType dtype) {
  const PauseRecording pause;
  nn::StateDict weights;
  for (std::size_t layer = 0; layer < blocks.size(); ++layer) {
    const nn::StateDict state = blocks[layer]->state_dict();
    const std::string prefix = fmt::format("blocks.{}.", layer);
    for (const Fused& fused : linears_of(blocks[layer]->config))
      for (const char* kind : kinds) {
        const std::string name = fmt::format("{}.{}", fused.module, kind);
        if (!has(state, name)) continue;
        std::int64_t begin = 0;
        for (const auto& [part, rows] : fused.parts) {
          const Tensor cut = weight_named(state, name).slice(0, begin, begin + rows);
          weights.emplace_back(part_name(prefix, part, kind), cut.to(dtype).clone());
          begin += rows;
        }
      }
    for (const auto& [name, value] : state)
      if (name.starts_with("norm")) weights.emplace_back(prefix + name, value.to(dtype).clone());
  }
  return weights;
}

nn::Blocks blocks_with(const nn::BlockConfig& config, std::int64_t layers, const nn::StateDict& weights) {
  const PauseRecording pause;
  nn::Blocks blocks = empty_blocks(config, layers, weights.empty() ? DType::f64 : weights.front().second.dtype());
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::string prefix = fmt::format("blocks.{}.", layer);
    nn::StateDict state;
    for (const auto& [name, value] : blocks[static_cast<std::size_t>(layer)]->state_dict()) {
      if (name.starts_with("norm")) {
        state.emplace_back(name, weight_named(weights, prefix + name));
        continue;
      }
      for (const Fused& fused : linears_of(config)) {
        if (!name.starts_with(fused.module)) continue;
        std::vector<Tensor> parts;
        for (const auto& [part, rows] : fused.parts)
          parts.push_back(weight_named(weights, part_name(prefix, part, name.ends_with("bias") ? "bias" : "weight")));
        state.emplace_back(name, concat(parts, 0));
      }
    }
    blocks[static_cast<std::size_t>(layer)]->load_state_dict(state);
  }
  return blocks;
}

BlockWeights random_text_model(RandomKey key) {
  nn::BlockConfig config{.dim = 64, .heads = 4, .mlp = 128, .activation = nn::Activation::silu, .gated = true};
  config.norm = nn::NormKind::rms;
  config.qkv_bias = config.proj_bias = config.mlp_bias = false;
  config.causal = config.rotary.on = true;
  BlockWeights v = drawn_blocks("drawn text model", config, key);
  v.text = drawn_text(512, config.dim, key);
  return v;
}

BlockWeights random_image_model(RandomKey key, std::int64_t side, std::int64_t channels) {
  const nn::BlockConfig config{.dim = 64, .heads = 4, .mlp = 128};
  BlockWeights v = drawn_blocks("drawn vision transformer", config, key);
  PictureInput like;
  like.side = side;
  like.channels = channels;
  if (side < like.patch || side % like.patch != 0 || channels < 1)
    throw ValueError(fmt::format("drawn vision transformer: patches of {0} x {0} do not tile {1} x {1} pixels of {2} "
                                 "channels",
                                 like.patch, side, channels));
  const std::int64_t grid = side / like.patch;
  like.special = 1;
  like.patch_weight = Tensor::meta({config.dim, like.patch_elements()}, DType::f64);
  like.plain = Tensor::meta({grid * grid + 1, config.dim}, DType::f64);
  for (const auto& [name, shape] :
       {std::pair{"norm.weight", Shape{64}}, {"norm.bias", Shape{64}}, {"weight", Shape{10, 64}}, {"bias", Shape{10}}})
    like.head.emplace_back(name, Tensor::meta(shape, DType::f64));
  v.pictures = drawn_pictures(like, key);
  return v;
}

BlockWeights reinitialised(const BlockWeights& model, RandomKey key) {
  BlockWeights other = model;
  other.weights = drawn_weights(model.weights, key);
  if (model.pictures) other.pictures = drawn_pictures(*model.pictures, key);
  if (model.text) other.text = drawn_text(model.text->vocabulary, model.block.dim, key);
  return other;
}

BlockWeights before_tuning(const BlockWeights& model, double delta, RandomKey key) {
  const PauseRecording pause;
  BlockWeights before = model;
  for (std::size_t i = 0; i < before.weights.size(); ++i) {
    Tensor& w = before.weights[i].second;
    const double spread = w.numel() > 1 ? std_deviation(w).item() : 0.0;
    w = w + drawn(w.shape(), key, i, delta * spread);
  }
  return before;
}

} // namespace eg::permute
