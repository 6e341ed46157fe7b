#include "cli/text_flags.h"

#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/output.h"

#include "data/bytes.h"
#include "hub/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace eg::cli {
namespace {

/// The tokenizer asked for, or that of the model's folder; none where only ids are given and there is none.
std::optional<data::Tokenizer> tokenizer_of(const TextFlags& f, const std::string& model, bool needed) {
  if (!f.tokenizer.empty()) return data::Tokenizer::open(f.tokenizer);
  if (needed && data::file_exists(model))
    throw UsageError(fmt::format("{}: a llama2.c checkpoint holds no tokenizer: name one with --tokenizer, or give "
                                 "--ids without --stop",
                                 model));
  const auto has = [&](const char* name) { return data::file_exists(data::join_path(model, name)); };
  const bool there = has("tokenizer.json") || has("vocab.json") || has("vocab.txt");
  if (!needed && !there) return {};
  if (!there && has("config.json"))
    throw UsageError(
        fmt::format("{} holds no tokenizer: name one with --tokenizer, or give --ids without --stop", model));
  return data::Tokenizer::open(model);
}

std::vector<std::int64_t> prompt_ids(const TextFlags& f, const std::optional<data::Tokenizer>& tokenizer) {
  if (!f.ids.empty()) return parsed_ids("--ids", f.ids);
  data::EncodeOptions options;
  if (f.special_in_prompt) options.special_in_text = data::SpecialInText::recognise;
  std::vector<std::int64_t> ids = tokenizer->encode(f.prompt, options).ids;
  if (ids.empty()) throw ValueError("--prompt: the text has no tokens; give one with --ids");
  return ids;
}

} // namespace

void TextFlags::declare(CLI::App& app, const CommonOptions& common) {
  app.add_option("--prompt", prompt, "Text to continue")->type_name("TEXT");
  app.add_option("--ids", ids, "Ids to continue: 1,2,3 or '1 2 3'")->type_name("IDS");
  common.files
      ->input(app.add_option("--tokenizer", tokenizer, "Tokenizer's folder or file (default: the model's folder)"))
      ->type_name("DIR|FILE");
  app.add_option("--max-new-tokens", max_new_tokens,
                 "Tokens to add at most (default 100, or what the model has room for)")
      ->check(whole_number(0, 1 << 28))
      ->type_name("N");
  app.add_option("--temperature", sampling.temperature,
                 "Choose by softmax(logits / T); 0: the likeliest (default 0; 1 with --top-k or "
                 "--top-p)")
      ->check(number(0, 1e6))
      ->type_name("T");
  app.add_option("--top-k", sampling.top_k, "Choose among the K likeliest; 0: all (default 0)")
      ->check(whole_number(0, 1 << 28))
      ->type_name("K");
  app.add_option("--top-p", sampling.top_p, "Choose among the likeliest whose probabilities reach P (default 1)")
      ->check(positive_number(1))
      ->type_name("P");
  app.add_option("--stop", stops, "End before this text; may be given several times")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  app.add_flag("--special-in-prompt", special_in_prompt,
               "Special tokens spelt in the prompt are those tokens, not text");
  app.add_flag("--ignore-end", ignore_end, "Go on after a token that ends texts");
}

void TextFlags::settle(const CLI::App& app) {
  length_given = app.count("--max-new-tokens") > 0;
  const bool cut = app.count("--top-k") + app.count("--top-p") > 0;
  if (cut && app.count("--temperature") == 0) sampling.temperature = 1.0;
  if (cut && sampling.temperature == 0.0)
    throw UsageError("--top-k and --top-p have no effect at temperature 0, where the likeliest token is taken");
}

TextToContinue text_to_continue(const TextFlags& f, const std::string& model, std::uint64_t seed) {
  if (f.prompt.empty() == f.ids.empty()) throw UsageError("give either --prompt or --ids");
  TextToContinue text;
  text.tokenizer = tokenizer_of(f, model, f.ids.empty() || !f.stops.empty());
  text.prompt = prompt_ids(f, text.tokenizer);
  text.options = {.max_new_tokens = f.max_new_tokens, .sampling = f.sampling, .end_ids = {}, .key = {seed, 0}};
  if (!f.ignore_end && data::folder_exists(model)) text.options.end_ids = hub::end_ids(model);
  return text;
}

void fit_positions(TextToContinue& text, const TextFlags& flags, std::int64_t positions) {
  if (flags.length_given) return;
  text.options.max_new_tokens =
      std::clamp<std::int64_t>(positions - static_cast<std::int64_t>(text.prompt.size()), 0, flags.max_new_tokens);
}

TextStream::TextStream(std::string prompt, const CommonOptions& common)
    : prompt_(std::move(prompt)), echoes_(common.talks()), shows_(echoes_ || common.json.empty()) {}

void TextStream::show(std::string_view piece) {
  throw_if_stopped();
  if (!shows_) return;
  if (echoes_) say_text(std::exchange(prompt_, {}));
  say_text(piece);
  require_output();
}

} // namespace eg::cli
