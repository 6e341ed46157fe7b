#include "apps/cli/text_flags.h"

#include "apps/cli/model_files.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"

#include "core/base/bytes.h"
#include "nn/hub/generation/text.h"
#include "nn/hub/llama2c.h"
#include "permute/folder.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace eg::cli {
namespace {

/// The tokenizer asked for, or that of the model's folder; none where only ids are given and there is none.
std::optional<data::Tokenizer> tokenizer_of(const TextFlags& f, const std::string& model, bool needed) {
  if (!f.tokenizer.empty()) return data::Tokenizer::open(f.tokenizer);
  if (needed && file_exists(model)) {
    static_cast<void>(hub::llama2c_config(model)); // says of another file what it is
    throw UsageError(fmt::format("{}: a llama2.c checkpoint holds no tokenizer: name one with --tokenizer, or give "
                                 "--ids without --stop",
                                 model));
  }
  const auto has = [&](const char* name) { return file_exists(join_path(model, name)); };
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
                 "Tokens to add at most (default: as generation_config.json says, else 100, or what the model has "
                 "room for)")
      ->check(whole_number(0, 1 << 28))
      ->type_name("N");
  app.add_option("--temperature", sampling.temperature,
                 "Choose by softmax(logits / T); 0: the likeliest (default: as generation_config.json says, else 0; 1 "
                 "with --top-k or --top-p)")
      ->check(number(0, 1e6))
      ->type_name("T");
  app.add_option("--top-k", sampling.top_k,
                 "Choose among the K likeliest; 0: all (default: as generation_config.json says, else 0)")
      ->check(whole_number(0, 1 << 28))
      ->type_name("K");
  app.add_option(
         "--top-p", sampling.top_p,
         "Choose among the likeliest whose probabilities reach P (default: as generation_config.json says, else "
         "1)")
      ->check(positive_number(1))
      ->type_name("P");
  app.add_option("--repetition-penalty", repetition_penalty,
                 "Divide positive logits of tokens that the text holds by it, multiply negative ones (default: as "
                 "generation_config.json says, else 1)")
      ->check(positive_number(1e6))
      ->type_name("R");
  app.add_option("--stop", stops, "End before this text; may be given several times")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  app.add_flag("--special-in-prompt", special_in_prompt,
               "Special tokens spelt in the prompt are those tokens, not text");
  app.add_flag("--ignore-end", ignore_end, "Go on after a token that ends texts");
  app.add_flag("--ignore-generation-config", ignore_settings,
               "Take nothing but eos_token_id from the folder's generation_config.json");
}

void TextFlags::settle(const CLI::App& app) {
  const auto has = [&](const char* option) { return app.count(option) > 0; };
  given = {.length = has("--max-new-tokens"),
           .temperature = has("--temperature"),
           .top_k = has("--top-k"),
           .top_p = has("--top-p"),
           .repetition_penalty = has("--repetition-penalty")};
  if ((given.top_k || given.top_p) && given.temperature && sampling.temperature == 0.0)
    throw UsageError("--top-k and --top-p have no effect at temperature 0, where the likeliest token is taken");
}

namespace {

/// How tokens are chosen: by the flags, and where they do not say, as the folder does.
nn::SamplingOptions sampling_of(const TextFlags& f, const hub::GenerationSettings& s) {
  const bool cuts = f.given.top_k || f.given.top_p;
  const bool samples = f.given.temperature ? f.sampling.temperature > 0.0 : cuts || s.do_sample;
  if (!samples) return {};
  constexpr std::int64_t usual_top_k = 50; // transformers', where a folder that samples does not say
  nn::SamplingOptions o = f.sampling;
  if (!f.given.temperature) o.temperature = s.temperature.value_or(1.0);
  if (!f.given.top_k) o.top_k = s.top_k.value_or(s.do_sample ? usual_top_k : 0);
  if (!f.given.top_p) o.top_p = s.top_p.value_or(1.0);
  o.min_p = s.min_p.value_or(0.0);
  return o;
}

/// What the folder says, without the ids in it where the model's are others.
hub::GenerationSettings settings_of(const TextFlags& f, const std::string& model) {
  hub::GenerationSettings s;
  if (!folder_exists(model)) return s;
  if (f.ignore_settings)
    s.end_ids = hub::end_ids(model);
  else
    s = hub::read_generation_settings(model);
  if (const auto mark = permute::read_mark(model); mark && mark->renumbers_tokens) {
    s.end_ids.clear();
    s.rules.suppress_tokens.clear();
    s.rules.begin_suppress_tokens.clear();
  }
  return s;
}

void set_length(TextToContinue& text, const TextFlags& f, const hub::GenerationSettings& s) {
  using Length = TextToContinue::Length;
  text.options.max_new_tokens = f.max_new_tokens;
  if (f.given.length) {
    text.length = Length::flag;
  } else if (const auto most = s.most_new_tokens(std::ssize(text.prompt))) {
    text.options.max_new_tokens = *most;
    text.length = Length::folder;
  }
}

} // namespace

TextToContinue text_to_continue(const TextFlags& f, const std::string& model, std::uint64_t seed) {
  if (f.prompt.empty() == f.ids.empty()) throw UsageError("give either --prompt or --ids");
  if (f.ids.empty() || !f.stops.empty()) require_own_ids(model);
  const hub::GenerationSettings settings = settings_of(f, model);
  TextToContinue text;
  text.tokenizer = tokenizer_of(f, model, f.ids.empty() || !f.stops.empty());
  text.prompt = prompt_ids(f, text.tokenizer);
  text.options = {.sampling = sampling_of(f, settings), .key = {seed, 0}, .rules = settings.rules};
  if (f.given.repetition_penalty) text.options.rules.repetition_penalty = f.repetition_penalty;
  if (!f.ignore_end) text.options.end_ids = settings.end_ids;
  text.cached = settings.use_cache;
  set_length(text, f, settings);
  return text;
}

void fit_positions(TextToContinue& text, std::int64_t positions) {
  if (text.length == TextToContinue::Length::flag) return;
  text.options.max_new_tokens =
      std::clamp<std::int64_t>(positions - std::ssize(text.prompt), 0, text.options.max_new_tokens);
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
