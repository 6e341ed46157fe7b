#pragma once
// Linear, LayerNorm, Embedding, Dropout, attention, MLP and the encoder block.

#include "nn/module.h"

#include <cstdint>
#include <memory>
#include <optional>

namespace eg::nn {

/// y = x W^T + b: weight [out, in], bias [out]. Initialised as Kaiming uniform unless re-initialised.
class Linear : public Module {
public:
  Linear(std::int64_t in, std::int64_t out, RandomKey key, bool bias = true);
  Tensor operator()(const Tensor& x) const;
  /// x W^T + b + addend, fused
  Tensor operator()(const Tensor& x, const Tensor& addend) const;
  Tensor weight, bias;
};

/// gamma [dim], beta [dim].
class LayerNorm : public Module {
public:
  explicit LayerNorm(std::int64_t dim, double eps = 1e-5);
  Tensor operator()(const Tensor& x) const;
  Tensor weight, bias;
  double eps;
};

/// weight [count, dim], normal(0, 0.02).
class Embedding : public Module {
public:
  Embedding(std::int64_t count, std::int64_t dim, RandomKey key);
  Tensor operator()(const Tensor& ids) const;
  Tensor weight;
};

enum class Activation : std::uint8_t { gelu, gelu_tanh, relu, silu, tanh };
Tensor activate(const Tensor& x, Activation activation);
Activation activation_named(std::string_view name);

/// Self-attention with `heads` heads of `head_dim` (not tied to dim/heads). Q, K and V are one fused projection
/// qkv.weight [3 heads head_dim, dim] in the order Q, K, V, each head-major; proj.weight [dim, heads head_dim].
class MultiHeadAttention : public Module {
public:
  MultiHeadAttention(std::int64_t dim, std::int64_t heads, std::int64_t head_dim, RandomKey key, bool bias = true);
  /// x [B, T, dim]. addend (may be undefined) is added to the output: the residual.
  Tensor operator()(const Tensor& x, const Tensor& addend = {}) const;
  /// Intermediate values of the explicit path, for theorems and pictures. q, k, v, a: [B, heads, T, head_dim].
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
  bool pre_norm = true;      ///< x + f(LN x), else LN(x + f(x))
  double dropout = 0.0;      ///< on both residual branches
  double norm_eps = 1e-6;
};

/// One encoder block: norm1, attention (qkv, proj), norm2, mlp (fc1, fc2). x [B, T, dim] -> [B, T, dim].
class EncoderBlock : public Module {
public:
  EncoderBlock(const EncoderConfig& config, RandomKey key);
  /// `key` feeds dropout; unused in eval or with dropout 0.
  Tensor operator()(const Tensor& x, RandomKey key = {}) const;
  EncoderConfig config;
  LayerNorm norm1;
  MultiHeadAttention attention;
  LayerNorm norm2;
  Mlp mlp;
};

} // namespace eg::nn
