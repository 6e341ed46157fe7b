#pragma once
// Shares what language models have in common: kinds of heads, masks over padded batches, initial weights.

#include "nn/block.h"

#include <cstdint>
#include <string_view>

namespace eg::nn {

/// The head on top of a language model.
enum class Head : std::uint8_t {
  none,                    ///< the hidden states themselves
  language_model,          ///< logits of the next (decoder) or the masked (BERT) token: [B, T, vocabulary]
  sequence_classification, ///< logits of a text's class: [B, labels]
  token_classification,    ///< logits of each token's class: [B, T, labels]
  question_answering,      ///< logits of the first and the last token of an answer: [B, T, 2]
  next_sentence,           ///< BERT: does the second text follow the first? [B, 2]
  pretraining,             ///< BERT: language_model and next_sentence
};

/// "none", "language_model", ... as above. Throws ValueError that lists them.
Head head_named(std::string_view name);
std::string_view name_of(Head head);

/// attention_mask [B, T] (not 0: a token, 0: padding; i64, boolean or floating) as a mask against scores [B, heads,
/// queries, T]: boolean [B, 1, 1, T]. Undefined for an undefined mask. Throws ShapeError unless it is [batch, tokens].
Tensor key_mask(const Tensor& attention_mask, std::int64_t batch, std::int64_t tokens);

/// What a text model `what` is given: ids [B, T] or, in their place, embeddings [B, T, dim]. Throws ValueError unless
/// one of them is there, ShapeError for another rank.
const Tensor& ids_or_embeddings(std::string_view what, const Tensor& ids, const Tensor& embeddings);

namespace init {
/// Every matrix normal(0, stddev), embeddings included; vectors called weight (norms) 1, biases 0. What BERT, GPT-2 and
/// Llama begin with (Devlin et al., 2019; Radford et al., 2019; Touvron et al., 2023).
void normal_model(Module& model, double stddev, RandomKey key);
} // namespace init

} // namespace eg::nn
