#pragma once
// Changes logits by the text so far, before a token is chosen from them.

#include "core/tensor.h"

#include <cstdint>
#include <span>
#include <vector>

namespace eg::nn {

/// What transformers' logits processors of these names do, in this order. By default it changes nothing.
struct LogitRules {
  /// Logits of the tokens that the text holds, the prompt included: l / penalty where l is positive, else l penalty.
  double repetition_penalty = 1.0;
  /// No sequence of so many tokens comes twice, the prompt included; 0: any may.
  std::int64_t no_repeat_ngram_size = 0;
  std::int64_t min_length = 0;                          ///< no end before the text, prompt included, has so many tokens
  std::int64_t min_new_tokens = 0;                      ///< no end before there are so many new tokens
  std::vector<std::int64_t> suppress_tokens = {};       ///< never chosen
  std::vector<std::int64_t> begin_suppress_tokens = {}; ///< never chosen as the first new token

  /// Whether apply() leaves all logits as they are.
  bool neutral() const;
};

/// Throws ValueError that names the field when a rule makes no sense.
void check(const LogitRules& rules);

/// Logits [vocabulary] as the rules change them, in f64: tokens that must not be chosen become -infinity. `text`: the
/// prompt's tokens, `prompt` in number, and the new ones; `ends`: tokens that end a text. Tokens outside of the
/// vocabulary are passed over.
Tensor apply(const LogitRules& rules, const Tensor& logits, std::span<const std::int64_t> text, std::int64_t prompt,
             std::span<const std::int64_t> ends);

} // namespace eg::nn
