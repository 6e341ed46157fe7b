#pragma once
// Implements causal language models, of which GPT-2 and Llama are two configs. Radford et al., "Language models are
// unsupervised multitask learners", 2019; Touvron et al., "Llama: open and efficient foundation language models", 2023.

#include "nn/heads.h"

#include <optional>

namespace eg::nn {

struct DecoderConfig {
  std::int64_t vocabulary = 50257;
  std::int64_t positions = 1024; ///< longest text, tokens
  bool learned_positions = true; ///< an embedding for each position, added; else the blocks' rotary ones
  std::int64_t layers = 12;
  BlockConfig block;
  double embedding_dropout = 0.0;
  bool scale_by_layer = false; ///< attention of layer i is scaled by 1/(i + 1) besides
  Head head = Head::language_model;
  bool tied = true;          ///< the language-model head is the embedding matrix
  double head_dropout = 0.0; ///< of what the classifier reads
  std::int64_t labels = 2;
  std::int64_t padding = -1;     ///< id of padding, which sequence classification skips; -1: there is none
  bool constant_padding = false; ///< the padding id's embedding gets no gradient as an input (Llama)
};

/// GPT-2's shape: pre-norm LayerNorm (1e-5), gelu_tanh, MLP 4 dim, learned positions, dropout 0.1, tied head.
DecoderConfig gpt2_config(std::int64_t dim = 768, std::int64_t heads = 12, std::int64_t layers = 12);
/// Llama's shape: pre-norm RMSNorm (1e-6), SwiGLU, rotary positions, no biases, untied head, 32000 ids.
DecoderConfig llama_config(std::int64_t dim, std::int64_t heads, std::int64_t kv_heads, std::int64_t mlp,
                           std::int64_t layers);

/// Throws ValueError that names the field when a config makes no model.
void check(const DecoderConfig& config);

/// A batch of texts.
struct DecoderInput {
  Tensor ids;                 ///< i64 [B, T]
  Tensor attention_mask = {}; ///< [B, T], with a cache [B, tokens before and T]; 0 where a token is padding
  Tensor positions = {};      ///< i64 [B, T] or [1, T] or [T]; undefined: counted on from the cache's length or 0
  Tensor token_types = {};    ///< i64 [B, T]: further ids whose embeddings are added (GPT-2); undefined: none
  Tensor embeddings = {};     ///< [B, T, dim] in place of what ids would look up (ids undefined)
};

/// Keys and values of all layers.
class DecoderCache {
public:
  /// Memory for `capacity` tokens of `batch` texts. Throws MemoryError where there is none, ValueError for a model
  /// without layers.
  DecoderCache(const DecoderConfig& config, std::int64_t batch, std::int64_t capacity, DType dtype = DType::f32);
  /// Tokens stored, and capacity.
  std::int64_t length() const { return layers_.front().length(); }
  std::int64_t capacity() const { return capacity_; }
  /// Forgets all but the first `length` tokens.
  void truncate(std::int64_t length);
  std::vector<KvCache>& layers() { return layers_; }

private:
  std::vector<KvCache> layers_;
  std::int64_t capacity_;
};

/// Embedding, causal blocks, final norm, head.
class Decoder : public Module {
public:
  /// Weights normal(0, 0.02), the last linear of a residual branch divided by sqrt(2 layers) where positions are
  /// learned (GPT-2), biases 0. Throws ValueError as check(config) does.
  Decoder(const DecoderConfig& config, RandomKey key);

  /// Normed hidden states [B, T, dim] of the tokens given, which see what the cache holds. `key` feeds dropout. When it
  /// throws, the cache holds what it held before.
  Tensor operator()(const DecoderInput& input, DecoderCache* cache = nullptr, RandomKey key = {}) const;
  /// Its first part, embeddings [B, T, dim]; `key` feeds their dropout in training.
  Tensor embed(const DecoderInput& input, std::int64_t past = 0, RandomKey key = {}) const;
  /// Its second part: the blocks' output [B, T, dim] for z [B, T, dim] in the place of the input's embeddings. The
  /// third is `norm`.
  Tensor encode(const Tensor& z, const DecoderInput& input, DecoderCache* cache = nullptr, RandomKey key = {}) const;

  /// Logits of the next token from hidden states [..., dim] -> [..., vocabulary]. Throws ValueError unless the head is
  /// language_model.
  Tensor language_model(const Tensor& hidden) const;
  /// Logits of the head's classifier: of each token [B, T, labels], or for sequence classification of each text's last
  /// token that is not padding [B, labels], for which the ids are needed. `key` feeds dropout. Throws ValueError when
  /// the head has no classifier, or several texts have no padding id that marks their ends.
  Tensor classify(const Tensor& hidden, const Tensor& ids, RandomKey key = {}) const;

  /// Keeps the matrices of all products and the token embedding in fewer bits, for inference, and gives the memory of
  /// their f32 values back; norms, biases and learned positions stay. Those parameters have shapes and no values
  /// afterwards. Throws ValueError that names a weight that holds a NaN or an infinity, or was narrowed before; nothing
  /// has changed then.
  void narrow_weights(WeightStorage storage);

  const DecoderConfig config;
  Embedding token_embedding;
  std::optional<Embedding> position_embedding;
  Blocks blocks;
  Norm norm;
  std::optional<Linear> lm_head;    ///< [vocabulary, dim]; none when tied
  std::optional<Linear> classifier; ///< [labels, dim]; question_answering: [2, dim]

private:
  Tensor last_tokens(const Tensor& hidden, const Tensor& ids) const;
};

} // namespace eg::nn
