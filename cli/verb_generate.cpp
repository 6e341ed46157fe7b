// equigrad generate: text from a GPT-2 or Llama folder, streamed.

#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/model_files.h"
#include "cli/output.h"
#include "cli/precision.h"
#include "cli/verb.h"

#include "data/bytes.h"
#include "hub/folder.h"
#include "hub/llama2c.h"
#include "hub/text.h"
#include "nn/decoder.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

namespace eg::cli {
namespace {

struct GenerateRequest {
  std::string model, prompt, ids, tokenizer, dtype = "f32", precision = "f32", weights = "f32";
  std::vector<std::string> stops;
  std::int64_t max_new_tokens = 100;
  nn::SamplingOptions sampling;
  bool special_in_prompt = false, ignore_end = false;
};

std::unique_ptr<hub::Model> opened(const GenerateRequest& r) {
  if (!data::file_exists(r.model))
    return hub::load_model(r.model, {.dtype = r.dtype == "f64" ? DType::f64 : DType::f32}).model;
  std::unique_ptr<hub::Model> model = hub::load_llama2c(r.model);
  if (r.dtype == "f64") model->module().to(DType::f64);
  return model;
}

/// The tokenizer asked for, or that of the model's folder; none where only ids are given and there is none.
std::optional<data::Tokenizer> tokenizer_of(const GenerateRequest& r, bool needed) {
  if (!r.tokenizer.empty()) return data::Tokenizer::open(r.tokenizer);
  if (needed && data::file_exists(r.model))
    throw UsageError(fmt::format("{}: a llama2.c checkpoint holds no tokenizer: name one with --tokenizer, or give "
                                 "--ids without --stop",
                                 r.model));
  const auto has = [&](const char* name) { return data::file_exists(data::join_path(r.model, name)); };
  if (!needed && !has("tokenizer.json") && !has("vocab.json") && !has("vocab.txt")) return {};
  return data::Tokenizer::open(r.model);
}

std::vector<std::int64_t> prompt_ids(const GenerateRequest& r, const std::optional<data::Tokenizer>& tokenizer) {
  if (!r.ids.empty()) return parsed_ids("--ids", r.ids);
  data::EncodeOptions options;
  if (r.special_in_prompt) options.special_in_text = data::SpecialInText::recognise;
  std::vector<std::int64_t> ids = tokenizer->encode(r.prompt, options).ids;
  if (ids.empty()) throw ValueError("--prompt: the text has no tokens; give one with --ids");
  return ids;
}

/// What goes to stdout while the text grows: the prompt, once the model has accepted it, then the new text. With
/// --quiet the new text alone, and nothing where --json takes it.
class Stream {
public:
  Stream(std::string prompt, const CommonOptions& common)
      : prompt_(std::move(prompt)), echoes_(common.talks()), shows_(echoes_ || common.json.empty()) {}

  void show(std::string_view piece) {
    throw_if_stopped();
    if (!shows_) return;
    if (echoes_) say_text(std::exchange(prompt_, {}));
    say_text(piece);
    require_output();
  }

private:
  std::string prompt_;
  bool echoes_, shows_;
};

nlohmann::json as_json(const GenerateRequest& r, const hub::GeneratedText& result, double per_s) {
  return {{"model", r.model},
          {"weights", r.weights},
          {"prompt_ids", result.prompt_ids},
          {"ids", result.ids},
          {"text", result.text},
          {"ended", result.ended},
          {"prompt_ms", 1e3 * result.prompt_seconds},
          {"tokens_per_s", per_s}};
}

void check(const GenerateRequest& r, const CommonOptions& common) {
  if (r.prompt.empty() == r.ids.empty()) throw UsageError("give either --prompt or --ids");
  std::vector<std::string> read = files_of_model(r.model);
  if (!r.tokenizer.empty())
    for (std::string& file : known_files(r.tokenizer)) read.push_back(std::move(file));
  require_apart(common, {}, read);
}

int generate(const GenerateRequest& r, const CommonOptions& common, bool length_given) {
  check(r, common);
  const nn::WeightStorage weights = weights_asked(r.weights, r.dtype);
  const std::optional<data::Tokenizer> tokenizer = tokenizer_of(r, r.ids.empty() || !r.stops.empty());
  const std::vector<std::int64_t> prompt = prompt_ids(r, tokenizer);
  const std::unique_ptr<hub::Model> model = opened(r);
  if (model->decoder() != nullptr) model->decoder()->narrow_weights(weights); // what has none is refused below
  nn::GenerateOptions options{
      .max_new_tokens = r.max_new_tokens, .sampling = r.sampling, .end_ids = {}, .key = {common.seed, 0}};
  if (!r.ignore_end && data::folder_exists(r.model)) options.end_ids = hub::end_ids(r.model);
  if (model->decoder() != nullptr && !length_given) // as many as there is room for, at most
    options.max_new_tokens = std::clamp<std::int64_t>(
        model->decoder()->config.positions - static_cast<std::int64_t>(prompt.size()), 0, r.max_new_tokens);

  const ProductsScope products(granted(r.precision, r.dtype));
  survive_broken_pipes();
  Stream stream(tokenizer ? r.prompt : "", common);
  const hub::GeneratedText result = hub::generate_text(*model, tokenizer ? &*tokenizer : nullptr, prompt, options,
                                                       r.stops, [&](std::string_view piece) { stream.show(piece); });
  const double per_s =
      result.ids.size() > 1 && result.seconds > 0 ? static_cast<double>(result.ids.size() - 1) / result.seconds : 0.0;
  stream.show(tokenizer ? "\n" : fmt::format("{}\n", fmt::join(result.ids, ",")));
  if (common.talks())
    fmt::print(stderr, "{} tokens, ended by {}; prompt {:.0f} ms, {:.1f} tokens/s\n", result.ids.size(), result.ended,
               1e3 * result.prompt_seconds, per_s);
  write_json(common, as_json(r, result, per_s));
  return done;
}

} // namespace

Job declare_generate(CLI::App& app, const CommonOptions& common) {
  auto r = std::make_shared<GenerateRequest>();
  app.add_option("--model", r->model, "Folder of a GPT-2 or Llama, or a llama2.c checkpoint")
      ->required()
      ->type_name("DIR");
  app.add_option("--prompt", r->prompt, "Text to continue")->type_name("TEXT");
  app.add_option("--ids", r->ids, "Ids to continue: 1,2,3 or '1 2 3'")->type_name("IDS");
  app.add_option("--tokenizer", r->tokenizer, "Tokenizer's folder or file (default: the model's folder)")
      ->type_name("DIR|FILE");
  app.add_option("--max-new-tokens", r->max_new_tokens,
                 "Tokens to add at most (default 100, or what the model has room for)")
      ->check(whole_number(0, 1 << 28))
      ->type_name("N");
  app.add_option("--temperature", r->sampling.temperature,
                 "Choose by softmax(logits / T); 0: the likeliest (default 0; 1 with --top-k or "
                 "--top-p)")
      ->check(number(0, 1e6))
      ->type_name("T");
  app.add_option("--top-k", r->sampling.top_k, "Choose among the K likeliest; 0: all (default 0)")
      ->check(whole_number(0, 1 << 28))
      ->type_name("K");
  app.add_option("--top-p", r->sampling.top_p, "Choose among the likeliest whose probabilities reach P (default 1)")
      ->check(positive_number(1))
      ->type_name("P");
  app.add_option("--stop", r->stops, "End before this text; may be given several times")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  app.add_flag("--special-in-prompt", r->special_in_prompt,
               "Special tokens spelt in the prompt are those tokens, not text");
  app.add_flag("--ignore-end", r->ignore_end, "Go on after a token that ends texts");
  app.add_option("--dtype", r->dtype, "f32 or f64 (default f32)")->check(one_of({"f32", "f64"}))->type_name("TYPE");
  add_precision(app, r->precision);
  add_weights(app, r->weights);
  return [r, &app, &common]() -> int {
    r->model = model_folder(r->model);
    const bool cut = app.count("--top-k") + app.count("--top-p") > 0;
    if (cut && app.count("--temperature") == 0) r->sampling.temperature = 1.0;
    if (cut && r->sampling.temperature == 0.0)
      throw UsageError("--top-k and --top-p have no effect at temperature 0, where the likeliest token is taken");
    return generate(*r, common, app.count("--max-new-tokens") > 0);
  };
}

} // namespace eg::cli
