#pragma once
// Shares the flags of `generate` and `stip query`: the text that is continued, how, and where it is shown.

#include "apps/cli/shell/verb.h"

#include "data/text/tokenizer.h"
#include "nn/generate.h"
#include "nn/hub/generation/generation.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace eg::cli {

struct TextFlags {
  std::string prompt, ids, tokenizer;
  std::vector<std::string> stops;
  std::int64_t max_new_tokens = 100;
  nn::SamplingOptions sampling;
  double repetition_penalty = 1.0;
  bool special_in_prompt = false, ignore_end = false, ignore_settings = false;
  /// Options that were given: they go before what the folder says.
  struct Given {
    bool length = false, temperature = false, top_k = false, top_p = false, repetition_penalty = false;
  } given;

  /// Declares --prompt, --ids, --tokenizer, --max-new-tokens, --temperature, --top-k, --top-p, --repetition-penalty,
  /// --stop, --special-in-prompt, --ignore-end and --ignore-generation-config.
  void declare(CLI::App& app, const CommonOptions& common);
  /// After parsing: defaults that depend on what was given. Throws UsageError for what would have no effect.
  void settle(const CLI::App& app);
};

/// A text ready to be continued.
struct TextToContinue {
  std::optional<data::Tokenizer> tokenizer;
  std::vector<std::int64_t> prompt;
  nn::GenerateOptions options; ///< the folder's generation_config.json, and the flags before it
  bool cached = true;          ///< false: the folder says use_cache false
  /// Where the number of new tokens comes from.
  enum class Length : std::uint8_t { standard, folder, flag } length = Length::standard;
};

/// `model`: the folder whose tokenizer and generation_config.json serve, or a llama2.c checkpoint. Throws UsageError
/// unless one of --prompt and --ids was given, and where a tokenizer is needed and none is named; FileError,
/// ValueError.
TextToContinue text_to_continue(const TextFlags& flags, const std::string& model, std::uint64_t seed);
/// Cuts the number of new tokens, unless it was given, to what a model with so many positions has room for.
void fit_positions(TextToContinue& text, std::int64_t positions);

/// What goes to stdout while the text grows: the prompt, once the model has accepted it, then the new text. With
/// --quiet the new text alone, and nothing where --json takes it.
class TextStream {
public:
  TextStream(std::string prompt, const CommonOptions& common);
  /// Throws Interrupted after Ctrl-C, FileError when nobody receives the text.
  void show(std::string_view piece);

private:
  std::string prompt_;
  bool echoes_, shows_;
};

} // namespace eg::cli
