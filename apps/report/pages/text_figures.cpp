#include "apps/report/pages/figures.h"
#include "apps/report/pages/predictions.h"
#include "apps/report/pages/run_model.h"
#include "core/base/error.h"
#include "core/call.h"
#include "core/ops.h"
#include "data/text/labelled_texts.h"
#include "data/text/table.h"
#include "data/text/text.h"
#include "nn/decoder.h"
#include "nn/hub/generation/text.h"
#include "training/language/classify.h"
#include "training/language/encoded_texts.h"
#include "training/language/language.h"
#include "training/language/text_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace eg::pages {
namespace {

using report::Page;

/// The beginning of a text, cut between two characters.
std::string beginning(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0U) == 0x80U) --most;
  return std::string(text.substr(0, most)) + " \u2026";
}

Predictions predict(const hub::Model& model, const training::EncodedTexts& texts, std::vector<std::string> classes,
                    std::int64_t batch_size, StopFlag stop) {
  const PauseRecording pause;
  Predictions found{.classes = std::move(classes)};
  const auto padding = model.config().value("pad_token_id", std::int64_t{0});
  std::vector<std::int64_t> places(static_cast<std::size_t>(texts.size()));
  std::iota(places.begin(), places.end(), 0);
  const auto step = static_cast<std::size_t>(batch_size);
  for (std::size_t at = 0; at < places.size(); at += step) {
    if (stop != nullptr && stop->load()) throw Interrupted("report: interrupted");
    const auto part = std::span(places).subspan(at, std::min(step, places.size() - at));
    const training::TextBatch batch = texts.batch(part, padding);
    found.add(
        hub::find(
            model.forward({{"input_ids", batch.ids}, {"attention_mask", batch.mask}, {"token_type_ids", batch.types}}),
            "logits"),
        batch.labels);
  }
  return found;
}

void add_texts(Page& page, const data::LabelledTexts& texts, const Predictions& p,
               const std::vector<std::size_t>& places) {
  constexpr std::size_t shown = 500; // bytes
  for (const std::size_t i : places) {
    page.paragraph(p.caption(i));
    page.quote(beginning(texts.texts[i], shown));
    if (!texts.pairs.empty()) page.quote(beginning(texts.pairs[i], shown));
  }
}

/// The texts that a limit leaves (0: all).
data::LabelledTexts some_of(const data::LabelledTexts& all, std::int64_t limit) {
  const std::vector<bool> kept = data::drawn_rows(all.texts.size(), limit);
  data::LabelledTexts some{.name = all.name, .class_names = all.class_names, .texts = {}, .pairs = {}, .labels = {}};
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    some.texts.push_back(all.texts[i]);
    if (!all.pairs.empty()) some.pairs.push_back(all.pairs[i]);
    some.labels.push_back(all.labels[i]);
  }
  return some;
}

/// Ids of a part of a long text.
std::vector<std::int64_t> slice_of(const std::vector<std::int32_t>& ids, std::size_t begin, std::int64_t count) {
  const auto from = ids.begin() + static_cast<std::ptrdiff_t>(begin);
  return {from, from + std::min<std::ptrdiff_t>(count, ids.end() - from)};
}

} // namespace

void add_classifier_figures(Page& page, const RunFolder& run, const FigureOptions& o) {
  report_progress(o, run.name + ": reading the model and its texts");
  const auto options = options_in(run, training::ClassifyOptions(), o);
  const std::unique_ptr<hub::Model> model = plain_model_of(run, options);
  if (model->architecture() != "BertForSequenceClassification")
    throw ValueError(fmt::format("{}: its model is a {}, no classifier of texts", run.path, model->architecture()));
  const auto [train, all] = data::open_labelled_texts(options.data, options.data_dir,
                                                      {.validation = options.validation,
                                                       .held_out = options.held_out,
                                                       .train_limit = options.train_limit,
                                                       .test_limit = options.test_limit,
                                                       .stop = o.stop});
  const data::Tokenizer tokenizer = tokenizer_of(run);
  const training::EncodedTexts every(all, tokenizer, options.context, o.stop);
  require_test_data(run, training::fingerprint(every.flat()));
  const data::LabelledTexts test = some_of(all, o.samples);
  const training::EncodedTexts encoded(test, tokenizer, options.context, o.stop);
  report_progress(o, run.name + ": predicting test texts");
  const Predictions p = predict(*model, encoded, test.class_names, options.batch, o.stop);
  page.paragraph(fmt::format("The final model on {} test texts of {}: {:.2f} % right.", p.size(), options.data,
                             100.0 * static_cast<double>(p.correct()) / static_cast<double>(p.size())));
  add_confusion(page, p);
  add_classes(page, p);
  page.heading(run.name + ": texts and what the model says of them");
  add_texts(page, test, p, p.spread(4));
  const std::vector<std::size_t> mistakes = p.surest_mistakes(4);
  if (mistakes.empty()) return;
  page.heading(run.name + ": the surest mistakes");
  add_texts(page, test, p, mistakes);
}

void add_language_figures(Page& page, const RunFolder& run, const FigureOptions& o) {
  report_progress(o, run.name + ": continuing the held-out text");
  const auto kind = run.model == "llama" ? training::LanguageModel::llama : training::LanguageModel::gpt2;
  const auto options = options_in(run, training::language_defaults(kind), o);
  const std::unique_ptr<hub::Model> model = plain_model_of(run, options);
  if (model->decoder() == nullptr)
    throw ValueError(fmt::format("{}: its model is a {}, no language model", run.path, model->architecture()));
  const data::Tokenizer tokenizer = tokenizer_of(run);
  const std::string whole = data::read_text(options.validation.empty() ? data::find_text(options.data, options.data_dir)
                                                                       : options.validation);
  const std::string_view text =
      options.validation.empty() ? data::held_out(whole, options.held_out).second : std::string_view(whole);
  const std::vector<std::int32_t> ids = data::token_ids(tokenizer, text, o.stop);
  require_test_data(run, training::fingerprint(ids));
  const std::int64_t room = model->decoder()->config.positions, given = room / 2;
  page.paragraph(
      fmt::format("{} tokens of the held-out text, how the final model goes on (temperature 0.8), and how the "
                  "text does.",
                  given));
  for (std::uint64_t i = 0; i < 3; ++i) {
    leave_if_stopped(o);
    const std::size_t begin = i * (ids.size() / 3);
    const std::vector<std::int64_t> prompt = slice_of(ids, begin, given);
    if (prompt.empty()) break;
    const auto answer = hub::generate_text(*model, &tokenizer, prompt,
                                           {.max_new_tokens = room - static_cast<std::int64_t>(prompt.size()),
                                            .sampling = {.temperature = 0.8},
                                            .key = {o.seed, i}},
                                           {}, [](std::string_view) {});
    const std::size_t after = begin + prompt.size();
    const std::string truth =
        after < ids.size() ? tokenizer.decode(slice_of(ids, after, room - given)) : std::string("(its end)");
    page.quote(tokenizer.decode(prompt));
    page.side_by_side({{"the model", answer.text}, {"the text", truth}});
  }
}

} // namespace eg::pages
