#pragma once
// Implements BERT with its heads. Devlin et al., "BERT: pre-training of deep bidirectional transformers", NAACL 2019.

#include "nn/heads.h"

#include <optional>

namespace eg::nn {

struct BertConfig {
  std::int64_t vocabulary = 30522;
  std::int64_t positions = 512; ///< longest text, tokens
  std::int64_t token_types = 2;
  std::int64_t layers = 12;
  BlockConfig encoder{.dim = 768,
                      .heads = 12,
                      .mlp = 3072,
                      .pre_norm = false,
                      .norm_eps = 1e-12,
                      .dropout = 0.1,
                      .attention_dropout = 0.1};
  bool pooler = true; ///< tanh(W z_0 + b), what sequence heads read; without it there are none
  Head head = Head::none;
  double head_dropout = 0.1; ///< of what the classifier reads
  std::int64_t labels = 2;
  std::int64_t padding = 0; ///< its word embedding gets no gradient as an input; -1: none
  bool tied = true;         ///< the masked-LM decoder is the embedding matrix
};

/// Throws ValueError that names the field when a config makes no model.
void check(const BertConfig& config);

/// A batch of texts.
struct BertInput {
  Tensor ids;                 ///< i64 [B, T]
  Tensor attention_mask = {}; ///< [B, T], 0 where a token is padding; undefined: none is
  Tensor token_types = {};    ///< i64 [B, T]; undefined: 0
  Tensor positions = {};      ///< i64 [B, T] or [1, T]; undefined: 0, 1, ...
  Tensor embeddings = {};     ///< [B, T, dim] in place of what ids would look up (ids undefined)
};

/// norm(activation(W h + b)) and its product with the decoder matrix: what masked tokens were.
class MaskedLmHead : public Module {
public:
  MaskedLmHead(const BertConfig& config, RandomKey key);
  /// hidden [..., dim] -> logits [..., vocabulary]; `embedding` [vocabulary, dim] is the decoder when tied.
  Tensor operator()(const Tensor& hidden, const Tensor& embedding) const;
  Linear dense;
  Activation activation;
  Norm norm;
  Tensor decoder; ///< [vocabulary, dim], undefined when tied
  Tensor bias;    ///< [vocabulary]
};

/// Embeddings (words, positions, token types, norm), post-norm blocks, pooler, head.
class Bert : public Module {
public:
  /// Weights normal(0, 0.02), biases 0. Throws ValueError as check(config) does.
  Bert(const BertConfig& config, RandomKey key);

  /// Hidden states of the last block, [B, T, dim]. `key` feeds dropout in training.
  Tensor operator()(const BertInput& input, RandomKey key = {}) const;
  /// The two parts of it: norm(word + position + token type), and the blocks.
  Tensor embed(const BertInput& input, RandomKey key = {}) const;
  Tensor encode(const Tensor& z, const Tensor& attention_mask = {}, RandomKey key = {}) const;
  /// tanh(W h_0 + b) of hidden states [B, T, dim] -> [B, dim]. Throws ValueError when there is no pooler.
  Tensor pool(const Tensor& hidden) const;

  /// Logits of masked tokens from hidden states [..., dim] -> [..., vocabulary]: all of them, or those of the masked
  /// places alone. Throws ValueError unless the head is language_model or pretraining.
  Tensor masked_lm(const Tensor& hidden) const;
  /// Logits of the head's classifier from hidden states [B, T, dim]: of the pooled text, or of every token. Throws
  /// ValueError when the head has no classifier.
  Tensor classify(const Tensor& hidden, RandomKey key = {}) const;

  const BertConfig config;
  Embedding word_embedding, position_embedding, token_type_embedding;
  Norm embedding_norm;
  Blocks blocks;
  std::optional<Linear> pooler;
  std::optional<MaskedLmHead> lm_head;
  std::optional<Linear> classifier; ///< [labels, dim]; next_sentence and question_answering: [2, dim]

private:
  bool classifies_texts() const;
};

} // namespace eg::nn
