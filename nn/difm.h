#pragma once
// Implements the dual input-aware factorization machine for rows of a table. Lu, Yu, Chang, Wang, Li, Yuan, "A Dual
// Input-aware Factorization Machine for CTR Prediction", IJCAI 2020.

#include "nn/layers.h"

namespace eg::nn {

struct DifmConfig {
  std::vector<std::int64_t> vocabularies; ///< how many ids each categorical field has: field f takes 0 .. [f] - 1
  std::int64_t numeric = 0;               ///< numeric fields; they follow the categorical ones
  std::int64_t dim = 8;                   ///< width of a field's embedding
  std::int64_t heads = 4;                 ///< of the vector-wise part's attention
  std::int64_t head_dim = 8;
  std::vector<std::int64_t> hidden = {128, 128}; ///< widths of the bit-wise part's layers, one at least
  Activation activation = Activation::relu;      ///< of both parts
  double dropout = 0.0;                          ///< behind each layer of the bit-wise part

  std::int64_t categorical() const { return static_cast<std::int64_t>(vocabularies.size()); }
  /// Fields in all, F.
  std::int64_t fields() const { return categorical() + numeric; }
};

/// Throws ValueError that names the field when a config makes no model.
void check(const DifmConfig& config);

/// A vector for each field of a row: row vocabulary offset + id of one table for a categorical field, value times a
/// vector for a numeric one (nothing, then, for 0: encode a missing value so). weight [sum of vocabularies, width],
/// numeric_weight [numeric, width], both normal(0, 0.05); those that would be empty are left out.
class FieldEmbedding : public Module {
public:
  /// The sizes come from a config that is sound.
  FieldEmbedding(const DifmConfig& config, std::int64_t width, RandomKey key);
  /// ids [B, categorical] i64, values [B, numeric] floating -> [B, F, width]; undefined where there are no such fields.
  /// Throws ShapeError, DTypeError, and IndexError for an id outside its field's vocabulary.
  Tensor operator()(const Tensor& ids, const Tensor& values) const;
  Tensor weight, numeric_weight;

private:
  Tensor rows_of(const Tensor& ids) const;
  std::vector<std::int64_t> vocabularies_;
};

/// logit = w0 + sum_i m_i w_i x_i + sum_{i<j} <m_i v_i x_i, m_j v_j x_j>: a factorization machine whose field i is
/// weighted by a factor m_i that depends on the whole row. With E [F, dim] the embeddings v_i x_i of the row,
///   vector-wise: O = activation(attention(E) + E W_residual^T)  [F, heads head_dim], softmax attention over the fields
///   bit-wise:    o = a multi-layer perceptron of E flattened    [hidden.back()]
///   m = flattened O W_v^T + o W_b^T                             [F]
/// Train it with bce_with_logits; sigmoid(logit) is a probability. Whoever wants to see or shuffle what passes between
/// the parts calls them one by one: permuted rows of E permute the rows of O, and nothing else here is equivariant.
class Difm : public Module {
public:
  /// Throws ValueError as check(config) does.
  Difm(const DifmConfig& config, RandomKey key);

  /// ids [B, categorical] i64, values [B, numeric] (undefined where there are none) -> logits [B]. `key` feeds dropout.
  Tensor operator()(const Tensor& ids, const Tensor& values = {}, RandomKey key = {}) const;
  /// The parts of it. -> E [B, F, dim]
  Tensor embed(const Tensor& ids, const Tensor& values = {}) const;
  /// E [B, F, dim] -> O [B, F, heads head_dim]
  Tensor vector_wise(const Tensor& e) const;
  /// E [B, F, dim] -> o [B, hidden.back()]
  Tensor bit_wise(const Tensor& e, RandomKey key = {}) const;
  /// O and o -> m [B, F]
  Tensor factors(const Tensor& vector_wise, const Tensor& bit_wise) const;
  /// The re-weighted factorization machine: E [B, F, dim] and m [B, F] -> logits [B]. Its first order looks the row up.
  Tensor machine(const Tensor& ids, const Tensor& values, const Tensor& e, const Tensor& m) const;

  const DifmConfig config;
  FieldEmbedding embedding;                    ///< v: width dim
  FieldEmbedding first_order;                  ///< w: width 1
  Tensor bias;                                 ///< w0 [1]
  Linear qkv;                                  ///< [3 heads head_dim, dim], Q, K, V, each head-major; no bias
  Linear residual;                             ///< [heads head_dim, dim], no bias
  std::vector<std::unique_ptr<Linear>> layers; ///< of the bit-wise part
  Linear vector_factor;                        ///< [F, F heads head_dim], no bias
  Linear bit_factor;                           ///< [F, hidden.back()], no bias
};

} // namespace eg::nn
