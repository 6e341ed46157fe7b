#include "apps/report/run_report.h"

#include "apps/report/chart.h"
#include "apps/report/image_figures.h"
#include "apps/report/pictures.h"
#include "core/ops.h"
#include "data/loader.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg::report {

using permute::Permutation;
using permute::PermuteMode;
namespace {

std::string variant_title(PermuteMode mode) {
  switch (mode) {
  case PermuteMode::none:
    return "plain";
  case PermuteMode::rows:
    return "rows permuted";
  case PermuteMode::columns:
    return "columns permuted";
  case PermuteMode::both:
    return "rows and columns permuted";
  }
  return "";
}

void add_identities(Page& page, const std::vector<permute::VerifyResult>& results) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> marks;
  for (const permute::VerifyResult& r : results) {
    rows.push_back({r.id, r.title, r.equation, std::string(name_of(r.kind)), std::string(name_of(r.dtype)),
                    fmt::format("{:.1e}", r.error), fmt::format("{:.0e}", r.tolerance),
                    fmt::format("{:.1e}: {}", r.control.error, r.control.what),
                    r.bitwise ? (*r.bitwise ? "yes" : "no") : "", r.pass ? "pass" : "fail"});
    marks.emplace_back(r.pass ? "pass" : "fail");
  }
  page.table({"id", "what", "eq.", "kind", "type", "error", "gate", "negative control (must fail)", "same bits", ""},
             rows, marks);
}

/// One series per variant; `pick` gives the value. Later lines are thinner and dashed, so that all can be seen where
/// the curves coincide.
template <class F>
Chart variant_chart(const std::vector<training::Record>& steps, std::string title, std::string y, F&& pick) {
  Chart chart{.title = std::move(title), .x_label = "step", .y_label = std::move(y)};
  if (steps.empty()) return chart;
  for (std::size_t v = 0; v < steps.front().variants.size(); ++v) {
    Series series{.name = variant_title(steps.front().variants[v].mode), .dashed = v > 0};
    series.color = static_cast<int>(v);
    series.width = v == 0 ? 6.0 : 3.2 - 0.6 * static_cast<double>(v);
    for (const training::Record& record : steps) {
      series.x.push_back(static_cast<double>(record.step));
      series.y.push_back(pick(record.variants[v]));
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

void add_training(Page& page, const RunStory& story) {
  std::vector<std::vector<std::string>> rows;
  for (const training::VariantRecord& test : story.test.variants) {
    rows.push_back({variant_title(test.mode), fmt::format("{:.6f}", test.loss),
                    fmt::format("{:.2f} %", 100 * test.accuracy),
                    std::isnan(test.drift) ? "reference" : fmt::format("{:.1e}", test.drift)});
  }
  page.table({"variant", "test loss", "test accuracy", "drift of the weights after mapping back"}, rows);
  page.chart(variant_chart(story.steps, "Training loss", "cross-entropy",
                           [](const training::VariantRecord& v) { return v.loss; }),
             "The curves of all variants lie on each other: permuting tokens and features does not change training.");
  Chart drift = variant_chart(story.steps, "Drift from the plain model", "largest relative difference",
                              [](const training::VariantRecord& v) { return v.drift; });
  drift.log_y = true;
  std::erase_if(drift.series, [](const Series& s) { return s.name == "plain"; });
  page.chart(drift,
             "How far the permuted models' weights, mapped back, are from the plain model's (b_K excluded: its "
             "gradient is zero, so an adaptive optimiser moves it by rounding noise). Only rounding tells them apart; "
             "it grows as the model learns, and with exact sums (verify --exact) there is none.");
}

/// Attention of the last block for one image: averaged over heads, [tokens, tokens].
Tensor attention_map(const nn::Vit& model, const Tensor& z) {
  Tensor x = z;
  nn::MultiHeadAttention::Trace trace;
  for (const auto& block : model.blocks) x = block->traced(x, trace);
  return mean(trace.scores, {0, 1});
}

void add_attention(Page& page, const training::VitTrainer& trainer) {
  const data::ImageDataset& data = trainer.test_data();
  const data::Normalization normalization = trainer.pixels();
  const nn::Vit& model = trainer.model(0);
  const data::Loader loader(data, {.batch_size = 1, .shuffle = false, .normalization = normalization, .workers = 0});
  for (std::int64_t i = 0; i < std::min<std::int64_t>(2, data.size()); ++i) {
    const Tensor z = model.embed(loader.batch(0, i).images.to(trainer.options().dtype));
    const Permutation rows = Permutation::random_nonidentity(z.size(1), {9, static_cast<std::uint64_t>(i)});
    const Tensor plain = attention_map(model, z);
    const Tensor permuted = attention_map(model, permute_rows(z, rows.tensor()));
    const Permutation back = rows.inverse();
    const Tensor restored = back.apply(back.apply(permuted, 0), 1);
    page.figures(
        {{picture(raw_image(data, i)), "image"},
         {heat_map(plain), "S of the last block, mean over heads"},
         {heat_map(permuted), "S with tokens permuted: P_R S P_R^T"},
         {heat_map(restored), fmt::format("mapped back; relative difference {:.1e}", relative_error(restored, plain))}},
        208);
  }
}

} // namespace

Page run_report(const RunStory& story, const training::VitTrainer& trainer) {
  Page page("equigrad: transformers commute with permutations");
  page.paragraph("Enc_(P)(P_R Z P_C) = P_R Enc(Z) P_C, forward and backward: the weights that a permuted model learns "
                 "are the plain model's weights, permuted. This page shows it on identities and on training.");
  page.heading("This machine");
  std::vector<std::vector<std::string>> machine;
  for (const auto& [what, value] : story.machine) machine.push_back({what, value});
  page.table({}, machine);
  const training::VitOptions& options = trainer.options();
  page.heading("Permuted training (Algorithm 1)");
  page.paragraph(
      fmt::format("A ViT with {} blocks of dim {}, {} heads and MLP {}, patch {}, trained on {} for {} steps of {} "
                  "images with {} in {}; a "
                  "fresh P_R for every image and step, one P_C for the model; all variants start from coupled weights.",
                  options.model.layers, options.model.encoder.dim, options.model.encoder.heads,
                  options.model.encoder.mlp, options.model.patch, trainer.train_data().name(), story.test.step,
                  options.batch, options.optimizer, name_of(options.dtype)));
  add_training(page, story);
  page.heading("What the encoder sees");
  page.paragraph("Images with their patches (rows of Z) and the elements within each patch (columns) permuted, as in "
                 "Fig. 7 of \"Shuffled Transformers for Blind Training\". Permutation is obfuscation, not encryption: "
                 "colours and textures stay, and attacks with public weights undo it.");
  add_shuffles(page, trainer);
  page.heading("Attention with and without permutation");
  add_attention(page, trainer);
  page.heading("Identities");
  add_identities(page, story.identities);
  return page;
}

} // namespace eg::report
