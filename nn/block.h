#pragma once
// Implements the transformer block: attention and MLP with norms and residuals. One config makes the blocks of ViT and
// BERT (encoders), GPT-2 and Llama (decoders).

#include "nn/attention.h"
#include "nn/norms.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace eg::nn {

struct BlockConfig {
  std::int64_t dim = 192;
  std::int64_t heads = 3;
  std::int64_t head_dim = 0; ///< 0: dim / heads
  std::int64_t kv_heads = 0; ///< heads of keys and values, each shared by heads / kv_heads neighbours; 0: heads
  std::int64_t mlp = 768;
  Activation activation = Activation::gelu;
  bool gated = false; ///< MLP: activation(gate) up instead of activation(fc1)
  NormKind norm = NormKind::layer;
  bool pre_norm = true; ///< x + f(norm x), else norm(x + f(x))
  double norm_eps = 1e-6;
  bool qkv_bias = true, proj_bias = true, mlp_bias = true;
  bool causal = false;
  double attention_scale = 0.0; ///< factor of Q K^T; 0: 1/sqrt(head_dim)
  RotaryConfig rotary = {};
  double dropout = 0.0;           ///< on both residual branches
  double attention_dropout = 0.0; ///< on the attention weights
  bool checkpoint = false; ///< a tape keeps a block's input alone and computes the rest again; same bits, less memory

  /// head_dim, or dim / heads where that is 0.
  std::int64_t width_of_head() const { return head_dim > 0 ? head_dim : dim / heads; }
  /// What its attention is made from.
  AttentionConfig attention() const;
};

/// Throws ValueError that names the field when a config makes no block.
void check(const BlockConfig& config);

/// One block: norm1, attention (qkv, proj), norm2, mlp (fc1, fc2). x [B, T, dim] -> [B, T, dim].
///   pre-norm:  y = x + attention(norm1(x)), z = y + mlp(norm2(y))
///   post-norm: y = norm1(x + attention(x)), z = norm2(y + mlp(y))
class Block : public Module {
public:
  Block(const BlockConfig& config, RandomKey key);
  /// `key` feeds dropout; unused in eval or with dropout 0.
  Tensor operator()(const Tensor& x, RandomKey key = {}) const { return (*this)(x, {}, key); }
  Tensor operator()(const Tensor& x, const AttentionContext& context, RandomKey key = {}) const;
  /// The same without dropout, through the explicit attention path; `trace` receives its intermediate values.
  Tensor traced(const Tensor& x, MultiHeadAttention::Trace& trace, const AttentionContext& context = {}) const;
  const BlockConfig config;
  Norm norm1;
  MultiHeadAttention attention;
  Norm norm2;
  Mlp mlp;

private:
  /// read: false when the values of the result are not used.
  Tensor run(const Tensor& x, const AttentionContext& context, RandomKey key, bool read = true) const;
  bool drops() const { return training() && config.dropout > 0.0; }
  Tensor attend(const Tensor& x, const AttentionContext& context, RandomKey key) const;
  Tensor transform(const Tensor& y, RandomKey key, bool read) const;
};

/// Blocks that follow each other.
using Blocks = std::vector<std::unique_ptr<Block>>;

/// All of them in turn; block i draws from key.fold(i) and, where there are caches, stores in caches[i].
Tensor run_blocks(const Blocks& blocks, const Tensor& x, const AttentionContext& context, RandomKey key,
                  std::vector<KvCache>* caches = nullptr);

} // namespace eg::nn
