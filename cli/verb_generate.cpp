// equigrad generate: text from a GPT-2 or Llama folder, streamed.

#include "cli/arguments.h"
#include "cli/model_files.h"
#include "cli/output.h"
#include "cli/precision.h"
#include "cli/text_flags.h"
#include "cli/verb.h"

#include "data/bytes.h"
#include "hub/text.h"
#include "nn/decoder.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>

namespace eg::cli {
namespace {

struct GenerateRequest {
  std::string model, dtype = "f32", precision = "f32", weights = "f32";
  TextFlags text;
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

int generate(const GenerateRequest& r, const CommonOptions& common) {
  for (const std::string& path : {r.model, r.text.tokenizer}) add_model(*common.files, path);
  common.files->check();
  const nn::WeightStorage weights = weights_asked(r.weights, r.dtype);
  TextToContinue text = text_to_continue(r.text, r.model, common.seed);
  const data::Tokenizer* const tokenizer = text.tokenizer ? &*text.tokenizer : nullptr;
  const hub::LoadModelOptions options{.dtype = r.dtype == "f64" ? DType::f64 : DType::f32};
  const std::unique_ptr<hub::Model> model = opened_model(r.model, options).model;
  if (model->decoder() != nullptr) {
    model->decoder()->narrow_weights(weights); // what has none is refused below
    fit_positions(text, r.text, model->decoder()->config.positions);
  }

  const ProductsScope products(granted(r.precision, r.dtype));
  TextStream stream(tokenizer != nullptr ? r.text.prompt : "", common);
  const hub::GeneratedText result = hub::generate_text(*model, tokenizer, text.prompt, text.options, r.text.stops,
                                                       [&](std::string_view piece) { stream.show(piece); });
  const double per_s =
      result.ids.size() > 1 && result.seconds > 0 ? static_cast<double>(result.ids.size() - 1) / result.seconds : 0.0;
  stream.show(tokenizer != nullptr ? "\n" : fmt::format("{}\n", fmt::join(result.ids, ",")));
  if (common.talks())
    fmt::print(stderr, "{} tokens, ended by {}; prompt {:.0f} ms, {:.1f} tokens/s\n", result.ids.size(), result.ended,
               1e3 * result.prompt_seconds, per_s);
  write_json(common, as_json(r, result, per_s));
  return done;
}

} // namespace

Job declare_generate(CLI::App& app, const CommonOptions& common) {
  auto r = std::make_shared<GenerateRequest>();
  common.files->input(app.add_option("--model", r->model, "Folder of a GPT-2 or Llama, or a llama2.c checkpoint"))
      ->required()
      ->type_name("DIR");
  r->text.declare(app, common);
  app.add_option("--dtype", r->dtype, "f32 or f64 (default f32)")->check(one_of({"f32", "f64"}))->type_name("TYPE");
  add_precision(app, r->precision);
  add_weights(app, r->weights);
  return [r, &app, &common]() -> int {
    r->model = model_folder(r->model);
    r->text.settle(app);
    return generate(*r, common);
  };
}

} // namespace eg::cli
