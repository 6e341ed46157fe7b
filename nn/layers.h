#pragma once
// Linear, LayerNorm, Embedding, Dropout, attention, MLP and the encoder block. An error inside a module ends with the
// module's place in the model ("blocks.3.attention.qkv").

#include "nn/module.h"

#include <cstdint>
#include <memory>
#include <string_view>

namespace eg::nn {

/// y = x W^T + b: weight [out, in], bias [out]. Weight and bias are uniform in +-1/sqrt(in) unless re-initialised.
/// Throws ValueError when in or out is not positive.
class Linear : public Module {
public:
  Linear(std::int64_t in, std::int64_t out, RandomKey key, bool bias = true);
  /// x [..., in] -> [..., out]
  Tensor operator()(const Tensor& x) const;
  /// x W^T + b + addend, fused; addend [..., out], undefined for none
  Tensor operator()(const Tensor& x, const Tensor& addend) const;
  Tensor weight, bias;
};

/// (x - mean) / sqrt(var + eps) * weight + bias over the last axis; weight (gamma) and bias (beta) are [dim].
class LayerNorm : public Module {
public:
  explicit LayerNorm(std::int64_t dim, double eps = 1e-5);
  Tensor operator()(const Tensor& x) const;
  Tensor weight, bias;
  double eps;
};

/// Rows of weight [count, dim] by ids; normal(0, 0.02).
class Embedding : public Module {
public:
  Embedding(std::int64_t count, std::int64_t dim, RandomKey key);
  /// ids [...] i64 -> [..., dim]
  Tensor operator()(const Tensor& ids) const;
  Tensor weight;
};

/// x with elements set to zero with probability p in training, scaled by 1/(1-p); x itself in evaluation.
/// Throws ValueError unless p is in [0, 1).
class Dropout : public Module {
public:
  explicit Dropout(double p);
  /// The mask depends on `key` alone, so a permuted or recomputed pass can draw it again.
  Tensor operator()(const Tensor& x, RandomKey key) const;
  double p;
};

enum class Activation : std::uint8_t { gelu, gelu_tanh, relu, silu, tanh };
Tensor activate(const Tensor& x, Activation activation);
/// "gelu", "gelu_tanh", "relu", "silu" or "tanh". Throws ValueError that lists them.
Activation activation_named(std::string_view name);
std::string_view name_of(Activation activation);

/// Self-attention with `heads` heads of `head_dim` (not tied to dim/heads). Q, K and V are one fused projection
/// qkv.weight [3 heads head_dim, dim] in the order Q, K, V, each head-major; proj.weight [dim, heads head_dim].
class MultiHeadAttention : public Module {
public:
  MultiHeadAttention(std::int64_t dim, std::int64_t heads, std::int64_t head_dim, RandomKey key, bool bias = true);
  /// x [B, T, dim]. addend (may be undefined) is added to the output: the residual.
  Tensor operator()(const Tensor& x, const Tensor& addend = {}) const;
  /// Intermediate values of the explicit path, for theorems and pictures. q, k, v, a: [B, heads, T, head_dim];
  /// scores: softmax(q k^T / sqrt(head_dim)) [B, heads, T, T]; output: after the projection, [B, T, dim].
  struct Trace {
    Tensor q, k, v, scores, a, output;
  };
  Trace trace(const Tensor& x) const;
  std::int64_t dim, heads, head_dim;
  Linear qkv, proj;
};

/// fc2(activation(fc1(x))): fc1.weight [hidden, dim], fc2.weight [dim, hidden].
class Mlp : public Module {
public:
  Mlp(std::int64_t dim, std::int64_t hidden, Activation activation, RandomKey key, bool bias = true);
  /// addend (may be undefined) is added to the output: the residual.
  Tensor operator()(const Tensor& x, const Tensor& addend = {}) const;
  Activation activation;
  Linear fc1, fc2;
};

struct EncoderConfig {
  std::int64_t dim = 192;
  std::int64_t heads = 3;
  std::int64_t head_dim = 0; ///< 0: dim / heads
  std::int64_t mlp = 768;
  Activation activation = Activation::gelu;
  bool pre_norm = true; ///< x + f(LN x), else LN(x + f(x))
  double dropout = 0.0; ///< on both residual branches
  double norm_eps = 1e-6;
  bool checkpoint = false; ///< a tape keeps a block's input alone and computes the rest again; same bits, less memory

  /// head_dim, or dim / heads where that is 0.
  std::int64_t width_of_head() const { return head_dim > 0 ? head_dim : dim / heads; }
};

/// Throws ValueError that names the field when a config makes no block.
void check(const EncoderConfig& config);

/// One encoder block: norm1, attention (qkv, proj), norm2, mlp (fc1, fc2). x [B, T, dim] -> [B, T, dim].
///   pre-norm:  y = x + attention(norm1(x)), z = y + mlp(norm2(y))
///   post-norm: y = norm1(x + attention(x)), z = norm2(y + mlp(y))
class EncoderBlock : public Module {
public:
  EncoderBlock(const EncoderConfig& config, RandomKey key);
  /// `key` feeds dropout; unused in eval or with dropout 0.
  Tensor operator()(const Tensor& x, RandomKey key = {}) const;
  /// The same without dropout, through the explicit attention path; `trace` receives its intermediate values.
  Tensor traced(const Tensor& x, MultiHeadAttention::Trace& trace) const;
  const EncoderConfig config;
  LayerNorm norm1;
  MultiHeadAttention attention;
  LayerNorm norm2;
  Mlp mlp;

private:
  Tensor run(const Tensor& x, RandomKey key) const;
  bool drops() const { return training() && config.dropout > 0.0; }
  Tensor attend(const Tensor& x, RandomKey key) const;
  Tensor transform(const Tensor& y, RandomKey key) const;
};

} // namespace eg::nn
