#include "nn/decoder.h"

#include "core/device/device.h"
#include "core/memory/allocator.h"
#include "nn/config_checks.h"
#include "nn/init.h"

#include <fmt/format.h>

#include <cmath>

namespace eg::nn {
namespace {

BlockConfig block_of(const DecoderConfig& c, std::int64_t layer) {
  BlockConfig block = c.block;
  if (!c.scale_by_layer) return block;
  const double scale = block.attention_scale != 0.0 ? block.attention_scale
                                                    : 1.0 / std::sqrt(static_cast<double>(block.width_of_head()));
  block.attention_scale = scale / static_cast<double>(layer + 1);
  return block;
}

std::int64_t classes_of(const DecoderConfig& c) {
  if (c.head == Head::sequence_classification || c.head == Head::token_classification) return c.labels;
  return c.head == Head::question_answering ? 2 : 0;
}

/// Residual branches add up: their last linear begins smaller by the root of their number.
void scale_residual_branches(const Decoder& model) {
  const PauseRecording pause;
  const double scale = 1.0 / std::sqrt(2.0 * static_cast<double>(model.blocks.size()));
  for (const std::unique_ptr<Block>& block : model.blocks)
    for (Tensor weight : {block->attention.proj.weight, block->mlp.fc2.weight}) weight.copy_from(weight * scale);
}

} // namespace

DecoderConfig gpt2_config(std::int64_t dim, std::int64_t heads, std::int64_t layers) {
  return {.layers = layers,
          .block = {.dim = dim,
                    .heads = heads,
                    .mlp = 4 * dim,
                    .activation = Activation::gelu_tanh,
                    .norm_eps = 1e-5,
                    .causal = true,
                    .dropout = 0.1,
                    .attention_dropout = 0.1},
          .embedding_dropout = 0.1};
}

DecoderConfig llama_config(std::int64_t dim, std::int64_t heads, std::int64_t kv_heads, std::int64_t mlp,
                           std::int64_t layers) {
  return {.vocabulary = 32000,
          .positions = 2048,
          .learned_positions = false,
          .layers = layers,
          .block = {.dim = dim,
                    .heads = heads,
                    .kv_heads = kv_heads,
                    .mlp = mlp,
                    .activation = Activation::silu,
                    .gated = true,
                    .norm = NormKind::rms,
                    .norm_eps = 1e-6,
                    .qkv_bias = false,
                    .proj_bias = false,
                    .mlp_bias = false,
                    .causal = true,
                    .rotary = {.on = true}},
          .tied = false};
}

void check(const DecoderConfig& c) {
  const ConfigChecks field("decoder");
  field.extent("vocabulary", c.vocabulary, limits::ids);
  field.extent("positions", c.positions, limits::ids);
  field.extent("labels", c.labels, limits::classes);
  field.count("layers", c.layers, limits::layers);
  field.share("embedding_dropout", c.embedding_dropout);
  field.share("head_dropout", c.head_dropout);
  if (c.constant_padding && c.padding >= c.vocabulary) // else it is compared with ids, and is that of no token
    throw ValueError(fmt::format("decoder: padding {} is not one of {} ids", c.padding, c.vocabulary));
  if (c.head == Head::next_sentence || c.head == Head::pretraining)
    throw ValueError(fmt::format("decoder: there is no head {}", name_of(c.head)));
  check(c.block);
  if (!c.block.causal) throw ValueError("decoder: the blocks must be causal");
}

DecoderCache::DecoderCache(const DecoderConfig& c, std::int64_t batch, std::int64_t capacity, DType dtype)
    : capacity_(capacity) {
  if (c.layers == 0) throw ValueError("decoder: a model without layers has nothing to keep in a cache");
  const std::int64_t heads = c.block.attention().key_heads();
  for (std::int64_t i = 0; i < c.layers; ++i)
    layers_.emplace_back(Shape{batch, heads}, capacity, c.block.width_of_head(), 0, dtype);
}

void DecoderCache::truncate(std::int64_t length) {
  for (KvCache& layer : layers_) layer.truncate(length);
}

Decoder::Decoder(const DecoderConfig& c, RandomKey key)
    : config(checked(c)), token_embedding(c.vocabulary, c.block.dim, key.fold(0), c.constant_padding ? c.padding : -1),
      norm(c.block.norm, c.block.dim, c.block.norm_eps) {
  register_module("token_embedding", token_embedding);
  if (c.learned_positions)
    register_module("position_embedding", position_embedding.emplace(c.positions, c.block.dim, key.fold(1)));
  for (std::int64_t i = 0; i < c.layers; ++i) {
    blocks.push_back(std::make_unique<Block>(block_of(c, i), key.fold(2).fold(static_cast<std::uint64_t>(i))));
    register_module(fmt::format("blocks.{}", i), *blocks.back());
  }
  register_module("norm", norm);
  if (c.head == Head::language_model && !c.tied)
    register_module("lm_head", lm_head.emplace(c.block.dim, c.vocabulary, key.fold(3), false));
  if (const std::int64_t classes = classes_of(c); classes > 0)
    register_module("classifier",
                    classifier.emplace(c.block.dim, classes, key.fold(4), c.head != Head::sequence_classification));
  init::normal_model(*this, 0.02, key.fold(5));
  if (c.learned_positions && c.layers > 0 && !init::skipping()) scale_residual_branches(*this);
}

Tensor Decoder::embed(const DecoderInput& in, std::int64_t past, RandomKey key) const {
  const Scope scope(*this);
  const Tensor& given = ids_or_embeddings("decoder", in.ids, in.embeddings);
  const DeviceScope there(given.device());
  Tensor z = in.ids.defined() ? token_embedding(in.ids) : in.embeddings;
  if (position_embedding) {
    const std::int64_t tokens = given.size(1);
    if (!in.positions.defined() && past + tokens > config.positions)
      throw ShapeError(
          fmt::format("decoder: the text has {} tokens, there are {} positions", past + tokens, config.positions));
    z = z + (*position_embedding)(in.positions.defined() ? in.positions : counted(past, tokens));
  }
  if (in.token_types.defined()) z = z + token_embedding(in.token_types);
  return training() && config.embedding_dropout > 0.0 ? dropout(z, config.embedding_dropout, key) : z;
}

namespace {

/// Takes back what a pass that did not end has stored in the layers that it reached.
class Rollback {
public:
  explicit Rollback(DecoderCache* cache) : cache_(cache), length_(cache != nullptr ? cache->length() : 0) {}
  ~Rollback() {
    if (cache_ != nullptr) cache_->truncate(length_);
  }
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;
  void dismiss() { cache_ = nullptr; }

private:
  DecoderCache* cache_;
  std::int64_t length_;
};

/// Positions for rotary, [T] or [batch, T]: of all texts alike when they were given once.
Tensor rotary_positions(const Tensor& given, std::int64_t batch) {
  if (!given.defined() || given.rank() < 2 || given.size(0) == batch) return given;
  return given.size(0) == 1 ? given.select(0, 0) : given;
}

} // namespace

Tensor Decoder::operator()(const DecoderInput& input, DecoderCache* cache, RandomKey key) const {
  const Scope scope(*this);
  const Tensor z = embed(input, cache != nullptr ? cache->length() : 0, key.fold(0));
  Rollback rollback(cache);
  Tensor hidden = norm(encode(z, input, cache, key.fold(1)));
  hidden = called({&input.ids, &input.attention_mask, &input.positions, &input.token_types, &input.embeddings}, hidden);
  rollback.dismiss();
  return hidden;
}

Tensor Decoder::encode(const Tensor& z, const DecoderInput& input, DecoderCache* cache, RandomKey key) const {
  const Scope scope(*this);
  const std::int64_t past = cache != nullptr ? cache->length() : 0;
  const AttentionContext context{.mask = key_mask(input.attention_mask, z.size(0), past + z.size(1)),
                                 .positions = rotary_positions(input.positions, z.size(0))};
  Rollback rollback(cache);
  Tensor hidden = run_blocks(blocks, z, context, key, cache != nullptr ? &cache->layers() : nullptr);
  rollback.dismiss();
  return hidden;
}

Tensor Decoder::language_model(const Tensor& hidden) const {
  const Scope scope(*this);
  if (config.head != Head::language_model)
    throw ValueError(fmt::format("decoder: the head is {}, not language_model", name_of(config.head)));
  return lm_head ? (*lm_head)(hidden) : token_embedding.logits(hidden);
}

void Decoder::narrow_weights(WeightStorage storage) {
  if (storage == WeightStorage::full) return;
  const auto each = [this](auto&& visit) {
    visit("token_embedding", token_embedding);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      Block& block = *blocks[i];
      visit(fmt::format("blocks.{}.attention.qkv", i), block.attention.qkv);
      visit(fmt::format("blocks.{}.attention.proj", i), block.attention.proj);
      visit(fmt::format("blocks.{}.mlp.fc1", i), block.mlp.fc1);
      visit(fmt::format("blocks.{}.mlp.fc2", i), block.mlp.fc2);
    }
    if (lm_head) visit("lm_head", *lm_head);
    if (classifier) visit("classifier", *classifier);
  };
  // Each once on trial: what does not fit is found before anything has changed, and there are never two copies of all.
  each([&](const std::string& name, const auto& layer) {
    const PlaceScope place(name);
    if (layer.is_narrow()) throw ValueError(fmt::format("narrow_weights: {} is narrow already", name));
    static_cast<void>(NarrowWeight(layer.weight, storage));
    allocator::release_cache();
  });
  each([&](const std::string&, auto& layer) {
    layer.narrow(storage);
    allocator::release_cache();
  });
}

Tensor Decoder::last_tokens(const Tensor& hidden, const Tensor& ids) const {
  const std::int64_t batch = hidden.size(0), tokens = hidden.size(1);
  // Without values a tape still records that the ids are compared with this one.
  if (config.padding >= 0 && ids.defined() && !ids.has_storage())
    static_cast<void>(eq(ids, Tensor::full({}, static_cast<double>(config.padding), DType::i64)));
  if (config.padding < 0 || !ids.defined() || !ids.has_storage()) { // texts without values have their full length
    if (batch > 1 && config.padding < 0)
      throw ValueError("decoder: there is no padding id, which tells where each of several texts ends");
    return hidden.select(1, tokens - 1);
  }
  const std::vector<std::int64_t> all = ids.to_vector<std::int64_t>();
  const DeviceScope there(hidden.device());
  std::vector<std::int64_t> rows;
  for (std::int64_t b = 0; b < batch; ++b) {
    std::int64_t last = tokens - 1;
    while (last > 0 && all[static_cast<std::size_t>(b * tokens + last)] == config.padding) --last;
    rows.push_back(b * tokens + last);
  }
  return index_select(hidden.reshape({batch * tokens, hidden.size(2)}), 0, Tensor::from<std::int64_t>(rows, {batch}));
}

Tensor Decoder::classify(const Tensor& hidden, const Tensor& ids, RandomKey key) const {
  const Scope scope(*this);
  if (!classifier) throw ValueError(fmt::format("decoder: the head {} has no classifier", name_of(config.head)));
  const Tensor of = config.head == Head::sequence_classification ? last_tokens(hidden, ids) : hidden;
  const bool drops = training() && config.head_dropout > 0.0;
  return (*classifier)(drops ? dropout(of, config.head_dropout, key) : of);
}

} // namespace eg::nn
