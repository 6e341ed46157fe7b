#pragma once
// Implements Linear, LayerNorm, Embedding, Dropout and MLP. An error inside a module ends with the module's place in
// the model ("blocks.3.mlp.fc1").

#include "nn/module.h"
#include "nn/narrow_weight.h"

#include <cstdint>
#include <memory>
#include <string_view>

namespace eg::nn {

/// y = x W^T + b: weight [out, in], bias [out]. Weight and bias are uniform in +-1/sqrt(in) unless re-initialised.
/// Throws ValueError when in or out is not positive.
///
/// narrow() keeps the weight in fewer bits, for inference: `weight` has its shape and no values afterwards, so it can
/// neither be trained, saved, loaded nor converted.
class Linear : public Module {
public:
  Linear(std::int64_t in, std::int64_t out, RandomKey key, bool bias = true);
  /// x [..., in] -> [..., out]
  Tensor operator()(const Tensor& x) const;
  /// x W^T + b + addend, fused; addend [..., out], undefined for none
  Tensor operator()(const Tensor& x, const Tensor& addend) const;
  /// The same, told to no hook: for values that are computed once more.
  Tensor without_hooks(const Tensor& x, const Tensor& addend = {}) const;
  /// Throws ValueError as NarrowWeight does, and where the weight was narrowed before; nothing has changed then.
  void narrow(WeightStorage storage);
  bool is_narrow() const { return narrow_.defined(); }
  Tensor weight, bias;

private:
  NarrowWeight narrow_;
};

/// (x - mean) / sqrt(var + eps) * weight + bias over the last axis; weight (gamma) and bias (beta) are [dim].
class LayerNorm : public Module {
public:
  explicit LayerNorm(std::int64_t dim, double eps = 1e-5);
  Tensor operator()(const Tensor& x) const;
  Tensor weight, bias;
  double eps;
};

/// Rows of weight [count, dim] by ids; normal(0, 0.02). No gradient flows to the row of `padding` (-1: to all).
class Embedding : public Module {
public:
  Embedding(std::int64_t count, std::int64_t dim, RandomKey key, std::int64_t padding = -1);
  /// ids [...] i64 -> [..., dim]
  Tensor operator()(const Tensor& ids) const;
  /// hidden [..., dim] times the table's transpose: logits of a head that is tied to it, [..., count].
  Tensor logits(const Tensor& hidden) const;
  /// As of Linear.
  void narrow(WeightStorage storage);
  bool is_narrow() const { return narrow_.defined(); }
  Tensor weight;
  std::int64_t padding;

private:
  NarrowWeight narrow_;
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

enum class Activation : std::uint8_t { gelu, gelu_tanh, quick_gelu, relu, relu2, silu, mish, sigmoid, tanh };
/// relu2 is relu(x)^2; the others are the ops of their names.
Tensor activate(const Tensor& x, Activation activation);
/// By the enumerator's name. Throws ValueError that lists them.
Activation activation_named(std::string_view name);
std::string_view name_of(Activation activation);

/// fc2(activation(fc1(x))): fc1.weight [hidden, dim], fc2.weight [dim, hidden].
/// Gated: fc2(activation(gate) up), fc1.weight [2 hidden, dim], the gate's rows before up's (Shazeer, "GLU variants
/// improve transformer", 2020; with silu: SwiGLU).
class Mlp : public Module {
public:
  Mlp(std::int64_t dim, std::int64_t hidden, Activation activation, RandomKey key, bool bias = true,
      bool gated = false);
  /// addend (may be undefined) is added to the output: the residual.
  Tensor operator()(const Tensor& x, const Tensor& addend = {}) const;
  /// The same for a tape alone: a meta tensor, fc2 is not computed.
  Tensor forward_shape_only(const Tensor& x, const Tensor& addend) const;
  Activation activation;
  bool gated;
  Linear fc1, fc2;

private:
  /// activation(fc1(x)), or the gated product.
  Tensor hidden(const Tensor& x) const;
};

} // namespace eg::nn
