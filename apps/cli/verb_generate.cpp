// equigrad generate: text from a GPT-2 or Llama folder, streamed.

#include "apps/cli/device_flag.h"
#include "apps/cli/model_files.h"
#include "apps/cli/precision.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/verb.h"
#include "apps/cli/text_flags.h"

#include "core/base/bytes.h"
#include "nn/decoder.h"
#include "nn/hub/generation/text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>

namespace eg::cli {
namespace {

struct GenerateRequest {
  std::string model, dtype = "f32", precision = "f32", weights = "f32", device;
  TextFlags text;
};

/// Leaves the text room in the model's positions. Rotary ones have no end: there the usual number alone is cut, and
/// not where the model was made to read on.
void fit(TextToContinue& text, const nn::DecoderConfig& c) {
  const bool dynamic = !c.learned_positions && c.block.rotary.dynamic_factor != 0.0;
  if (dynamic && !text.cached)
    throw UsageError("use_cache false of generation_config.json is not supported with a dynamic rope, whose keys turn "
                     "otherwise then; --ignore-generation-config leaves it out");
  const bool reads_on = dynamic || std::ssize(text.prompt) >= c.positions;
  const bool usual = text.length == TextToContinue::Length::standard;
  if (c.learned_positions || (usual && !reads_on)) fit_positions(text, c.positions);
}

nlohmann::json as_json(const nn::GenerateOptions& o) {
  const nn::SamplingOptions& s = o.sampling;
  return {{"max_new_tokens", o.max_new_tokens},
          {"temperature", s.temperature},
          {"top_k", s.top_k},
          {"top_p", s.top_p},
          {"min_p", s.min_p},
          {"repetition_penalty", o.rules.repetition_penalty},
          {"end_ids", o.end_ids}};
}

nlohmann::json as_json(const GenerateRequest& r, const nn::GenerateOptions& options, const hub::GeneratedText& result,
                       double per_s) {
  return {{"model", r.model},
          {"settings", as_json(options)},
          {"weights", r.weights},
          {"precision", name_of(matmul_precision())},
          {"prompt_ids", result.prompt_ids},
          {"ids", result.ids},
          {"text", result.text},
          {"ended", result.ended},
          {"prompt_ms", 1e3 * result.prompt_seconds},
          {"tokens_per_s", per_s}};
}

/// Logits that nothing can be chosen from are the model's fault.
hub::GeneratedText generated(const GenerateRequest& r, const hub::Model& model, const TextToContinue& text,
                             FunctionRef<void(std::string_view)> on_text) {
  try {
    return hub::generate_text(model, text.tokenizer ? &*text.tokenizer : nullptr, text.prompt, text.options,
                              r.text.stops, on_text);
  } catch (const ValueError& e) {
    if (std::string_view(e.what()).starts_with("sample: ")) throw ValueError(fmt::format("{}: {}", r.model, e.what()));
    throw;
  }
}

int generate(const GenerateRequest& r, const CommonOptions& common) {
  for (const std::string& path : {r.model, r.text.tokenizer}) add_model(*common.files, path);
  common.files->check();
  const nn::WeightStorage weights = requested_weight_storage(r.weights, r.dtype);
  if (r.precision == "int8" && weights != nn::WeightStorage::int8)
    throw UsageError(fmt::format("--precision int8 needs --weights int8, they are {}", r.weights));
  const Device device = requested_device(r.device);
  TextToContinue text = text_to_continue(r.text, r.model, common.seed);
  const data::Tokenizer* const tokenizer = text.tokenizer ? &*text.tokenizer : nullptr;
  const hub::LoadModelOptions options{.dtype = r.dtype == "f64" ? DType::f64 : DType::f32};
  const std::unique_ptr<hub::Model> model = opened_model(r.model, options).model;
  if (model->decoder() != nullptr) {
    model->decoder()->narrow_weights(weights); // what has none is refused below
    fit(text, model->decoder()->config);
  }
  model->module().to(device);

  const MatmulPrecisionScope products(effective_precision(r.precision, r.dtype, device));
  TextStream stream(tokenizer != nullptr ? r.text.prompt : "", common);
  const hub::GeneratedText result = generated(r, *model, text, [&](std::string_view piece) { stream.show(piece); });
  const double per_s =
      result.ids.size() > 1 && result.seconds > 0 ? static_cast<double>(result.ids.size() - 1) / result.seconds : 0.0;
  stream.show(tokenizer != nullptr ? "\n" : fmt::format("{}\n", fmt::join(result.ids, ",")));
  if (common.talks())
    fmt::print(stderr, "{} tokens, ended by {}; prompt {:.0f} ms, {:.1f} tokens/s\n", result.ids.size(), result.ended,
               1e3 * result.prompt_seconds, per_s);
  write_json(common, as_json(r, text.options, result, per_s));
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
  add_precision(app, r->precision, true);
  add_weights(app, r->weights);
  add_device(app, r->device);
  return [r, &app, &common]() -> int {
    r->model = model_folder(r->model);
    r->text.settle(app);
    return generate(*r, common);
  };
}

} // namespace eg::cli
