#pragma once
// Implements self-attention with shared heads, rotary positions, masks and a key-value cache.

#include "nn/kv_cache.h"
#include "nn/layers.h"
#include "nn/rotary.h"

#include <cstdint>
#include <span>
#include <vector>

namespace eg::nn {

struct AttentionConfig {
  std::int64_t dim = 192;
  std::int64_t heads = 3;
  std::int64_t head_dim = 64;
  std::int64_t kv_heads = 0; ///< heads of keys and values, each shared by heads / kv_heads neighbours; 0: heads
  bool qkv_bias = true;
  bool proj_bias = true;
  bool causal = false;  ///< a token sees itself and those before it
  double scale = 0.0;   ///< factor of Q K^T; 0: 1/sqrt(head_dim)
  double dropout = 0.0; ///< of the attention weights, in training
  RotaryConfig rotary = {};

  std::int64_t key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
};

/// Positions of tokens: first, first + 1, ..., i64 [count]. No tape sees it.
Tensor counted(std::int64_t first, std::int64_t count);

/// Throws ValueError that names the field when a config makes no attention.
void check(const AttentionConfig& config);

/// What a pass through attention needs beside its input.
struct AttentionContext {
  /// Against the scores [B, heads, T, keys]: boolean, true where a key is seen, or floating, added.
  Tensor mask = {};
  /// Positions for rotary, i64 [T] or [B, T]; undefined: counted from the cache's length, or from 0.
  Tensor positions = {};
  /// Receives the keys and values of these tokens, which attend to all that it holds. Only for causal attention.
  KvCache* cache = nullptr;
  /// One for each row of the batch, in place of `cache`, of texts whose lengths differ: row b appends to caches[b] and
  /// attends to what that one holds, as it would alone. Without a mask.
  std::span<KvCache* const> caches = {};

  bool has_cache() const { return cache != nullptr || !caches.empty(); }
};

/// Self-attention with `heads` heads of `head_dim` (not tied to dim/heads). Q, K and V are one fused projection
/// qkv.weight [(heads + 2 kv_heads) head_dim, dim] in the order Q, K, V, each head-major; proj.weight [dim, heads
/// head_dim].
class MultiHeadAttention : public Module {
public:
  /// Throws ValueError as check(config) does.
  MultiHeadAttention(const AttentionConfig& config, RandomKey key);
  MultiHeadAttention(std::int64_t dim, std::int64_t heads, std::int64_t head_dim, RandomKey key, bool bias = true);
  /// x [B, T, dim]. addend (may be undefined) is added to the output: the residual. `key` feeds dropout.
  Tensor operator()(const Tensor& x, const Tensor& addend = {}, const AttentionContext& context = {},
                    RandomKey key = {}) const;
  /// Intermediate values of the explicit path, for theorems and figures. q: [B, heads, T, head_dim], k and v: [B,
  /// kv_heads, T, head_dim] (q and k turned, where positions are rotary); scores: S = softmax(scale q k^T + mask) [B,
  /// heads, T, T]; a: S v [B, heads, T, head_dim]; output: after the projection, [B, T, dim].
  struct Trace {
    Tensor q, k, v, scores, a, output;
  };
  Trace trace(const Tensor& x, const AttentionContext& context = {}) const;

  /// The factor of Q K^T: config.scale, or 1/sqrt(head_dim).
  double scale() const;

  const AttentionConfig config;
  const std::int64_t dim, heads, head_dim;
  Linear qkv, proj;

private:
  struct Heads {
    Tensor q, k, v;
  };
  /// Of qkv(x) [B, T, (heads + 2 kv_heads) head_dim]: queries [B, heads, T, head_dim], keys and values [B, kv_heads, T,
  /// head_dim], views; q and k are turned where positions are rotary.
  Heads split(const Tensor& projected, const AttentionContext& context) const;
  /// Softmax with dropout between it and the values: S is in memory.
  Tensor attend_dropping(const Heads& h, const AttentionOptions& options, RandomKey key) const;
  Tensor attend(const Tensor& projected, const AttentionContext& context, RandomKey key) const;
  /// The values of the explicit path, without hooks behind the last projection.
  Trace traced(const Heads& h, const AttentionContext& context) const;
  Tensor attend_cached(const Heads& h, const AttentionContext& context) const;
};

} // namespace eg::nn
