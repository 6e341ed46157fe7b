#pragma once
// Generates text with a language model, token by token, with a key-value cache.

#include "core/base/function_ref.h"
#include "core/random.h"
#include "nn/decoder.h"
#include "nn/logit_rules.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace eg::nn {

/// How the next token is chosen from its logits l. Temperature first, then top_k, top_p and min_p.
struct SamplingOptions {
  double temperature = 0.0; ///< p = softmax(l / temperature); 0: the likeliest token, the first of equals
  std::int64_t top_k = 0;   ///< only tokens at least as likely as the k-th; 0: all
  double top_p = 1.0;       ///< only the likeliest tokens whose probabilities together reach p, at least one
  double min_p = 0.0;       ///< only tokens at least min_p times as likely as the likeliest
};

/// Throws ValueError that names the field when nothing can be chosen like this.
void check(const SamplingOptions& options);

/// The next token from logits [vocabulary] (f32 or f64); `uniform` in [0, 1) makes the choice where there is one.
/// Computed in f64. Throws ValueError for logits that hold NaN or nothing but -infinity.
std::int64_t sample(const Tensor& logits, const SamplingOptions& options, double uniform);

struct GenerateOptions {
  std::int64_t max_new_tokens = 100;
  SamplingOptions sampling = {};
  std::vector<std::int64_t> end_ids = {}; ///< a text ends with one of these
  RandomKey key = {};                     ///< token i of the text is chosen by number i of this key
  LogitRules rules = {};                  ///< what happens to the logits before
};

/// Continues `prompt` (at least one id): the new tokens, the ending one included. `on_token`, called with each, returns
/// false to end. The model must be in evaluation. Throws ValueError when the model has no language-model head, is in
/// training, an id is not in its vocabulary, or prompt and max_new_tokens are more than its learned positions; rotary
/// ones have no end. MemoryError names the length that did not fit: memory grows with the text, whatever
/// max_new_tokens. Dynamic rope: each token's query and key turn by the base of the text's length then, as
/// transformers' generate does it with a cache.
std::vector<std::int64_t> generate(const Decoder& model, std::span<const std::int64_t> prompt,
                                   const GenerateOptions& options, FunctionRef<bool(std::int64_t)> on_token);
std::vector<std::int64_t> generate(const Decoder& model, std::span<const std::int64_t> prompt,
                                   const GenerateOptions& options);

/// Normed hidden states of tokens [1, t] that follow those of the calls before: of all, [1, t, dim], or of the last
/// alone, [1, 1, dim].
using HiddenStates = std::function<Tensor(const Tensor& ids)>;
/// The same where the hidden states come from elsewhere: of the model its head alone is used.
std::vector<std::int64_t> generate(const Decoder& model, std::span<const std::int64_t> prompt,
                                   const GenerateOptions& options, FunctionRef<bool(std::int64_t)> on_token,
                                   const HiddenStates& hidden);

} // namespace eg::nn
