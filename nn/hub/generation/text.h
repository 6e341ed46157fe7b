#pragma once
// Continues texts with a language model: tokenizer, generation, streaming, stop strings.

#include "core/base/function_ref.h"
#include "data/text/tokenizer.h"
#include "nn/generate.h"
#include "nn/hub/generation/generation.h"
#include "nn/hub/model.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eg::hub {

/// Text that arrives in pieces, cut before the first stop string. What may be the beginning of one is held back.
class StopFilter {
public:
  /// Throws ValueError for an empty stop string.
  explicit StopFilter(std::vector<std::string> stops);
  /// The text that may be shown with this piece.
  std::string push(std::string_view piece);
  /// What was held back and is not a stop string after all.
  std::string finish();
  /// A stop string was found; all later text is dropped.
  bool stopped() const { return stopped_; }

private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

struct GeneratedText {
  std::vector<std::int64_t> prompt_ids, ids;
  std::string text;            ///< new text alone, without special tokens and before a stop string
  std::string ended;           ///< "length", "end token", "stop string"
  double prompt_seconds = 0.0; ///< until the first token
  double seconds = 0.0;        ///< for the others
};

/// Continues the ids of a prompt. `on_text` is called after each token with the text that is whole with it: possibly
/// none, never half a UTF-8 character; what it throws ends the work. Without a tokenizer there is no text and no stop
/// string. `hidden`: where the model's hidden states come from, if not from its own blocks. Throws what nn::generate
/// does, and ValueError for a model without language-model head.
GeneratedText generate_text(const Model& model, const data::Tokenizer* tokenizer, std::span<const std::int64_t> prompt,
                            const nn::GenerateOptions& options, const std::vector<std::string>& stops,
                            FunctionRef<void(std::string_view)> on_text, const nn::HiddenStates& hidden = {});

} // namespace eg::hub
