#pragma once
// Implements the Set Transformer. Lee, Lee, Kim, Kosiorek, Choi, Teh, "Set Transformer: A Framework for Attention-based
// Permutation-Invariant Neural Networks", ICML 2019.
//
// Sets are X [B, T, dim]: T elements in an order that nothing depends on. Permuted elements permute what Sab and Isab
// give, and leave what Pma gives. Sets of different sizes share a batch through `valid` [B, T] bool, true where there
// is an element: what is elsewhere reaches neither other elements nor what is pooled (it must be finite), and its
// own row of an output means nothing. A set without elements is pooled as if attention gave zero.

#include "nn/layers.h"

namespace eg::nn {

struct SetBlockConfig {
  std::int64_t dim = 64;
  std::int64_t heads = 4;
  std::int64_t head_dim = 0; ///< 0: dim / heads
  std::int64_t hidden = 128; ///< of the row-wise feed-forward layers
  Activation activation = Activation::relu;
  bool norm = true; ///< layer normalisation behind both residual sums
  double norm_eps = 1e-5;

  /// head_dim, or dim / heads where that is 0.
  std::int64_t width_of_head() const { return head_dim > 0 ? head_dim : dim / heads; }
};

/// Throws ValueError that names the field when a config makes no block.
void check(const SetBlockConfig& config);

/// Attention of one set to another: q [heads head_dim, dim], kv [2 heads head_dim, dim] in the order K, V, each
/// head-major, proj [dim, heads head_dim]; scores are divided by sqrt(head_dim).
class CrossAttention : public Module {
public:
  CrossAttention(std::int64_t dim, std::int64_t heads, std::int64_t head_dim, RandomKey key);
  /// x [B, T, dim] (or [1, T, dim]: the same for all sets), y [B, S, dim], valid [B, S] bool or undefined (all) ->
  /// x + attention [B, T, dim]. Throws ShapeError, DTypeError.
  Tensor operator()(const Tensor& x, const Tensor& y, const Tensor& valid = {}) const;
  std::int64_t dim, heads, head_dim;
  Linear q, kv, proj;
};

/// Multihead attention block: H = norm1(X + attention(X, Y, Y)), MAB(X, Y) = norm2(H + rFF(H)), rFF an Mlp.
class Mab : public Module {
public:
  Mab(const SetBlockConfig& config, RandomKey key);
  /// As CrossAttention. -> [B, T, dim]
  Tensor operator()(const Tensor& x, const Tensor& y, const Tensor& valid = {}) const;
  const SetBlockConfig config;
  CrossAttention attention;
  std::unique_ptr<LayerNorm> norm1, norm2; ///< none without config.norm
  Mlp mlp;
};

/// Self-attention of a set, SAB(X) = MAB(X, X): cost T^2.
class Sab : public Module {
public:
  Sab(const SetBlockConfig& config, RandomKey key);
  /// X [B, T, dim], valid [B, T] or undefined -> [B, T, dim], its rows permuted as X's are
  Tensor operator()(const Tensor& x, const Tensor& valid = {}) const;
  Mab mab;
};

/// The same through m learned points I, ISAB(X) = MAB(X, MAB(I, X)): cost m T.
class Isab : public Module {
public:
  /// Throws ValueError unless m is positive.
  Isab(const SetBlockConfig& config, std::int64_t m, RandomKey key);
  /// As Sab.
  Tensor operator()(const Tensor& x, const Tensor& valid = {}) const;
  Tensor inducing; ///< I [1, m, dim], uniform as xavier_uniform has it
  Mab to_points, from_points;
};

/// Pooling by k learned seeds S, PMA(Z) = MAB(S, rFF(Z)).
class Pma : public Module {
public:
  /// Throws ValueError unless k is positive.
  Pma(const SetBlockConfig& config, std::int64_t k, RandomKey key);
  /// Z [B, T, dim], valid [B, T] or undefined -> [B, k, dim], whatever the order of Z's rows
  Tensor operator()(const Tensor& z, const Tensor& valid = {}) const;
  Tensor seeds; ///< S [1, k, dim], uniform as xavier_uniform has it
  Mlp mlp;
  Mab mab;
};

struct SetTransformerConfig {
  std::int64_t inputs = 2;         ///< features of an element
  std::int64_t outputs = 1;        ///< numbers for each seed
  std::int64_t layers = 2;         ///< of the encoder
  std::int64_t inducing = 0;       ///< points of its ISABs; 0: SABs
  std::int64_t seeds = 1;          ///< pooled vectors
  std::int64_t decoder_layers = 1; ///< SABs among the pooled vectors
  SetBlockConfig block;
};

/// Throws ValueError that names the field when a config makes no model.
void check(const SetTransformerConfig& config);

/// input, encoder, PMA, decoder, head: invariant to the order of a set's elements.
class SetTransformer : public Module {
public:
  /// Throws ValueError as check(config) does.
  SetTransformer(const SetTransformerConfig& config, RandomKey key);
  /// x [B, T, inputs], valid [B, T] bool or undefined -> [B, seeds, outputs]
  Tensor operator()(const Tensor& x, const Tensor& valid = {}) const;
  /// The first part of it: elements that attend to each other, [B, T, inputs] -> [B, T, dim].
  Tensor encode(const Tensor& x, const Tensor& valid = {}) const;
  const SetTransformerConfig config;
  Linear input;                               ///< [dim, inputs]
  std::vector<std::unique_ptr<Sab>> encoder;  ///< these or
  std::vector<std::unique_ptr<Isab>> induced; ///< these, by config.inducing; both registered as "encoder"
  Pma pooling;
  std::vector<std::unique_ptr<Sab>> decoder;
  Linear head; ///< [outputs, dim]
};

} // namespace eg::nn
