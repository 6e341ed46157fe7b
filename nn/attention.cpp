#include "nn/attention.h"

#include "core/device/device.h"

#include "nn/attention_recorder.h"
#include "nn/config_checks.h"

#include <fmt/format.h>

#include <cmath>

namespace eg::nn {
Tensor counted(std::int64_t first, std::int64_t count) {
  const PauseRecording pause;
  return arange(static_cast<double>(first), static_cast<double>(first + count));
}

void check(const AttentionConfig& c) {
  const ConfigChecks field("attention");
  field.extent("dim", c.dim);
  field.extent("heads", c.heads, limits::heads);
  field.extent("head_dim", c.head_dim);
  field.share("dropout", c.dropout);
  if (c.kv_heads < 0 || c.heads % c.key_heads() != 0)
    throw ValueError(fmt::format("attention: kv_heads {} does not divide heads {}", c.kv_heads, c.heads));
  if (!(c.scale >= 0.0 && std::isfinite(c.scale)))
    throw ValueError(fmt::format("attention: scale must not be negative, it is {}", c.scale));
  if (c.rotary.on) check(c.rotary, c.head_dim);
}

MultiHeadAttention::MultiHeadAttention(const AttentionConfig& c, RandomKey key)
    : config(checked(c)), dim(c.dim), heads(c.heads), head_dim(c.head_dim),
      qkv(c.dim, (c.heads + 2 * c.key_heads()) * c.head_dim, key.fold(0), c.qkv_bias),
      proj(c.heads * c.head_dim, c.dim, key.fold(1), c.proj_bias) {
  register_module("qkv", qkv);
  register_module("proj", proj);
}

MultiHeadAttention::MultiHeadAttention(std::int64_t dim_, std::int64_t heads_, std::int64_t head_dim_, RandomKey key,
                                       bool bias)
    : MultiHeadAttention(
          AttentionConfig{.dim = dim_, .heads = heads_, .head_dim = head_dim_, .qkv_bias = bias, .proj_bias = bias},
          key) {}

namespace {

/// Default positions of tokens: [T], or [B, T] where each row has a past of its own.
Tensor following(const AttentionContext& context, std::int64_t tokens) {
  if (context.caches.empty()) return counted(context.cache != nullptr ? context.cache->length() : 0, tokens);
  std::vector<std::int64_t> all;
  for (const KvCache* cache : context.caches)
    for (std::int64_t t = 0; t < tokens; ++t) all.push_back(cache->length() + t);
  return Tensor::from<std::int64_t>(all, {static_cast<std::int64_t>(context.caches.size()), tokens});
}

} // namespace

MultiHeadAttention::Heads MultiHeadAttention::split(const Tensor& projected, const AttentionContext& context) const {
  const std::int64_t batch = projected.size(0), tokens = projected.size(1), shared = config.key_heads();
  const Tensor all = projected.reshape({batch, tokens, heads + 2 * shared, head_dim});
  const Tensor v = slice(all, 2, heads + shared, heads + 2 * shared).transpose(1, 2);
  if (!config.rotary.on)
    return {slice(all, 2, 0, heads).transpose(1, 2), slice(all, 2, heads, heads + shared).transpose(1, 2), v};
  const DeviceScope there(projected.device());
  const Tensor positions = context.positions.defined() ? context.positions : following(context, tokens);
  const Tensor qk = turn(slice(all, 2, 0, heads + shared), positions, config.rotary);
  return {slice(qk, 2, 0, heads).transpose(1, 2), slice(qk, 2, heads, heads + shared).transpose(1, 2), v};
}

Tensor MultiHeadAttention::attend_dropping(const Heads& h, const AttentionOptions& options, RandomKey key) const {
  const auto repeated = [&](const Tensor& t) {
    return heads == config.key_heads() ? t : repeat_interleave(t, heads / config.key_heads(), 1);
  };
  const Tensor products = matmul(h.q, repeated(h.k).transpose(-1, -2)) * scale();
  const Tensor scores = dropout(masked_softmax(products, options.mask, options.causal), config.dropout, key);
  return matmul(scores, repeated(h.v));
}

Tensor MultiHeadAttention::attend_cached(const Heads& h, const AttentionContext& context) const {
  if (!config.causal) throw ValueError("attention: a key-value cache needs causal attention");
  if (context.caches.empty()) {
    context.cache->append(h.k, h.v);
    return context.cache->attend(h.q, config.scale, context.mask);
  }
  const auto rows = static_cast<std::int64_t>(context.caches.size());
  if (rows != h.q.size(0) || context.mask.defined())
    throw ValueError(fmt::format("attention: {} key-value caches for {} rows{}", rows, h.q.size(0),
                                 context.mask.defined() ? ", which take no mask" : ""));
  std::vector<Tensor> each;
  for (std::int64_t b = 0; b < rows; ++b) {
    KvCache& cache = *context.caches[static_cast<std::size_t>(b)];
    cache.append(slice(h.k, 0, b, b + 1), slice(h.v, 0, b, b + 1));
    each.push_back(cache.attend(slice(h.q, 0, b, b + 1), config.scale));
  }
  return each.size() == 1 ? each.front() : concat(each, 0);
}

Tensor MultiHeadAttention::attend(const Tensor& projected, const AttentionContext& context, RandomKey key) const {
  const bool drops = training() && config.dropout > 0.0;
  const AttentionOptions options{.scale = config.scale, .mask = context.mask, .causal = config.causal};
  if (!drops && !config.rotary.on && config.key_heads() == heads && !context.has_cache())
    return attention_qkv(projected, heads, options);
  const std::int64_t batch = projected.size(0), tokens = projected.size(1);
  const Heads h = split(projected, context);
  const Tensor y = context.has_cache() ? attend_cached(h, context)
                   : drops             ? attend_dropping(h, options, key)
                                       : scaled_dot_product_attention(h.q, h.k, h.v, options);
  return y.transpose(1, 2).reshape({batch, tokens, heads * head_dim});
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Tensor& addend, const AttentionContext& context,
                                      RandomKey key) const {
  const Scope scope(*this);
  AttentionRecorder* const recorder = AttentionRecorder::current();
  Tensor recorded;
  const auto attended = [&] {
    const Tensor projected = qkv(x);               // freed before the result is projected
    if (recorder != nullptr) recorded = projected; // with what hooks made of it
    return attend(projected, context, key);
  };
  const Tensor y = called({&x, &addend, &context.mask, &context.positions}, proj(attended(), addend));
  if (recorder != nullptr) {
    if (context.has_cache()) throw ValueError("attention: a trace does not see the keys of a key-value cache");
    recorder->add({traced(split(recorded, context), context), scale()});
  }
  return y;
}

double MultiHeadAttention::scale() const {
  return config.scale != 0.0 ? config.scale : 1.0 / std::sqrt(static_cast<double>(head_dim));
}

MultiHeadAttention::Trace MultiHeadAttention::trace(const Tensor& x, const AttentionContext& context) const {
  const Scope scope(*this);
  return traced(split(qkv(x), context), context);
}

MultiHeadAttention::Trace MultiHeadAttention::traced(const Heads& h, const AttentionContext& context) const {
  Trace t{.q = h.q, .k = h.k, .v = h.v, .scores = {}, .a = {}, .output = {}};
  const AttentionParts attention =
      attention_explicit(t.q, t.k, t.v, {.scale = config.scale, .mask = context.mask, .causal = config.causal});
  t.scores = attention.scores;
  t.a = attention.output;
  t.output = proj.without_hooks(t.a.transpose(1, 2).reshape({h.q.size(0), h.q.size(2), heads * head_dim}));
  return t;
}

} // namespace eg::nn
