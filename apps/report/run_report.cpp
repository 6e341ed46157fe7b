#include "apps/report/run_report.h"

#include "apps/report/chart.h"
#include "apps/report/formulas.h"
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

const char* const own_styles = R"css(
.claim { font-size: 1.15rem; max-width: 46rem; } .math { overflow-x: auto; margin: .4rem 0; font-size: 1.1rem; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; }
.tiles div { background: var(--band); border: 1px solid var(--line); border-radius: 8px; padding: .6rem 1rem; flex: 1 1 9rem; font-size: .9rem; }
.tiles b { display: block; font-size: 1.5rem; line-height: 1.25; } .tiles .pass b { color: var(--good); } .tiles .fail b { color: var(--bad); }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: 1rem 0; }
)css";

struct Part {
  const char* title;
  const char* anchor;
};
constexpr Part training_part{"Training, plain and permuted", "training"},
    images_part{"What the encoder sees", "images"},
    attention_part{"Attention with and without permutation", "attention"}, theorems_part{"The theorems", "theorems"},
    machine_part{"This machine", "machine"};

void begin(Page& page, const Part& part) { page.heading(part.title, part.anchor); }

std::string link(const Part& part, const std::string& words) {
  return fmt::format("<a href=\"#{}\">{}</a>", part.anchor, words);
}

std::string tile(bool good, const std::string& figure, const std::string& words) {
  return fmt::format("<div class=\"{}\"><b>{}</b>{}</div>", good ? "pass" : "fail", figure, words);
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

double largest_drift(const training::Record& record) {
  double most = 0.0;
  for (const training::VariantRecord& v : record.variants)
    if (!std::isnan(v.drift)) most = std::max(most, v.drift);
  return most;
}

/// Of a test set of equally frequent classes.
double chance(const training::VitTrainer& trainer) {
  return 1.0 / static_cast<double>(std::max<std::size_t>(1, trainer.test_data().class_names().size()));
}

std::vector<const permute::VerifyResult*> failed(const std::vector<permute::VerifyResult>& results) {
  std::vector<const permute::VerifyResult*> out;
  for (const permute::VerifyResult& r : results)
    if (r.failed()) out.push_back(&r);
  return out;
}

/// The picture, the claim, and what came out.
void open_page(Page& page, const RunStory& story, const training::VitTrainer& trainer) {
  page.style(own_styles);
  page.markup(
      "<p class=\"claim\">Shuffle the tokens and the features of an encoder's input, permute its weights to match, "
      "and its output comes out shuffled in the same way. Its gradients do too, so it learns the same.</p>\n");
  page.markup(
      "<div class=\"math\" role=\"region\" tabindex=\"0\" aria-label=\"the claim as a formula\">"
      "<math display=\"block\"><msub><mi>Enc</mi><mrow><mo>(</mo><mi>P</mi><mo>)</mo></mrow></msub><mo>(</mo>"
      "<msub><mi>P</mi><mi>R</mi></msub><mi>Z</mi><msub><mi>P</mi><mi>C</mi></msub><mo>)</mo><mo>=</mo>"
      "<msub><mi>P</mi><mi>R</mi></msub><mspace width=\"0.2em\"></mspace><mi>Enc</mi><mo>(</mo><mi>Z</mi><mo>)</mo>"
      "<mspace width=\"0.2em\"></mspace><msub><mi>P</mi><mi>C</mi></msub></math></div>\n");
  add_shuffles(page, trainer, 1);
  const training::VariantRecord& plain = story.test.variants.front();
  const training::VariantRecord& permuted = story.test.variants.back();
  const auto wrong = failed(story.identities);
  page.markup(
      "<div class=\"tiles\">" +
      tile(plain.accuracy > 2 * chance(trainer), percent(plain.accuracy),
           fmt::format("of test images right, trained plain; guessing gives {}", percent(chance(trainer)))) +
      tile(plain.accuracy == permuted.accuracy, percent(permuted.accuracy), "trained on permuted tokens and features") +
      tile(true, fmt::format("{:.1e}", largest_drift(story.test)),
           "largest relative difference of any weight, permutations undone") +
      tile(wrong.empty(), fmt::format("{} of {}", story.identities.size() - wrong.size(), story.identities.size()),
           "measurements of the theorems hold, with controls that fail") +
      "</div>\n<nav aria-label=\"parts of this page\">");
  for (const Part& part : {training_part, images_part, attention_part, theorems_part, machine_part})
    page.markup(link(part, part.title) + "\n");
  page.markup("</nav>\n");
}

/// Results of one row: in f64, and in f32 if it was measured so.
struct Row {
  const permute::VerifyResult* wide = nullptr;
  const permute::VerifyResult* narrow = nullptr;
  const permute::VerifyResult& any() const { return wide ? *wide : *narrow; }
  bool failed() const { return (wide && wide->failed()) || (narrow && narrow->failed()); }
};

std::vector<Row> by_id(const std::vector<permute::VerifyResult>& results) {
  std::vector<Row> rows;
  for (const permute::VerifyResult& r : results) {
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& known) { return known.any().id == r.id; });
    if (row == rows.end()) row = rows.insert(rows.end(), Row{});
    (r.dtype == DType::f64 ? row->wide : row->narrow) = &r;
  }
  return rows;
}

std::string error_text(const permute::VerifyResult* r) {
  return r == nullptr ? "" : !r->skipped.empty() ? r->skipped : fmt::format("{:.1e}", r->error);
}

void add_table(Page& page, const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> cells;
  std::vector<std::string> marks;
  for (const Row& row : rows) {
    const permute::VerifyResult& r = row.any();
    cells.push_back({r.id, r.title, r.equation, std::string(name_of(r.kind)), error_text(row.wide),
                     error_text(row.narrow), fmt::format("{:.1e}: {}", r.control.error, r.control.what),
                     row.failed() ? "fail" : "pass"});
    marks.emplace_back(row.failed() ? "fail" : "pass");
  }
  page.table({"id", "what", "eq.", "kind", "error f64", "error f32", "control, which must fail", ""}, cells, marks);
}

/// The statements that the page rests on, each with its formula and its error.
void add_main_statements(Page& page, const std::vector<Row>& rows) {
  for (const std::string_view id : {"lem9.6", "thm4.1", "thm4.4", "thm4.7", "cor4.6-adam"}) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.any().id == id; });
    const auto& all = permute::catalogue();
    const auto identity = std::find_if(all.begin(), all.end(), [&](const auto& i) { return i.id == id; });
    if (row == rows.end()) continue;
    page.markup(fmt::format("<p><b>{}</b> ({}). {} Error {}, control {:.1e}.</p>\n<div class=\"math\" role=\"region\" "
                            "tabindex=\"0\" aria-label=\"formula of {}\">{}</div>\n",
                            escape(row->any().title), escape(row->any().id), escape(identity->statement),
                            error_text(&row->any()), row->any().control.error, escape(row->any().id),
                            mathml(identity->tex)));
  }
}

void add_identities(Page& page, const std::vector<permute::VerifyResult>& results) {
  const std::vector<Row> rows = by_id(results);
  page.paragraph(
      "Each row computes both sides of a statement on random numbers. The error is their largest difference over "
      "the largest expected entry. A control is the same with something deliberately wrong: its error must be "
      "large. equigrad verify --explain ID prints both sides of a row as matrices.");
  std::vector<Row> wrong;
  for (const Row& row : rows)
    if (row.failed()) wrong.push_back(row);
  if (!wrong.empty()) {
    page.paragraph("These do not hold as they must:");
    add_table(page, wrong);
  }
  add_main_statements(page, rows);
  std::vector<std::string> papers;
  for (const Row& row : rows)
    if (std::find(papers.begin(), papers.end(), row.any().paper) == papers.end()) papers.push_back(row.any().paper);
  for (const std::string& paper : papers) {
    std::vector<Row> of_paper;
    for (const Row& row : rows)
      if (row.any().paper == paper) of_paper.push_back(row);
    const auto bad = std::count_if(of_paper.begin(), of_paper.end(), [](const Row& row) { return row.failed(); });
    page.begin_details(fmt::format("{}: {} rows, {}", paper.empty() ? "In no paper" : "Paper " + paper, of_paper.size(),
                                   bad == 0 ? "all hold" : fmt::format("{} fail", bad)));
    add_table(page, of_paper);
    page.end_details();
  }
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

void add_training(Page& page, const RunStory& story, const training::VitTrainer& trainer) {
  std::vector<std::vector<std::string>> rows;
  for (const training::VariantRecord& test : story.test.variants) {
    rows.push_back({variant_title(test.mode), fmt::format("{:.6f}", test.loss),
                    fmt::format("{:.2f} %", 100 * test.accuracy),
                    std::isnan(test.drift) ? "reference" : fmt::format("{:.1e}", test.drift)});
  }
  page.table({"variant", "test loss", "test accuracy", "drift of the weights after mapping back"}, rows);
  page.paragraph(fmt::format("Guessing among {} classes gives {} and a loss of {:.2f}.",
                             trainer.test_data().class_names().size(), percent(chance(trainer)),
                             -std::log(chance(trainer))));
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
  Page page("Transformers commute with permutations");
  open_page(page, story, trainer);
  const training::VitOptions& options = trainer.options();
  begin(page, training_part);
  page.paragraph(
      fmt::format("A ViT with {} blocks of dim {}, {} heads and MLP {}, patch {}, trained on {} for {} steps of {} "
                  "images with {} in {}; a "
                  "fresh P_R for every image and step, one P_C for the model; all variants start from coupled weights.",
                  options.model.layers, options.model.encoder.dim, options.model.encoder.heads,
                  options.model.encoder.mlp, options.model.patch, trainer.train_data().name(), story.test.step,
                  options.batch, options.optimizer, name_of(options.dtype)));
  add_training(page, story, trainer);
  begin(page, images_part);
  page.paragraph("Images with their patches (rows of Z) and the elements within each patch (columns) permuted, as in "
                 "Fig. 7 of \"Shuffled Transformers for Blind Training\". Permutation is obfuscation, not encryption: "
                 "colours and textures stay, and attacks with public weights undo it.");
  add_shuffles(page, trainer);
  begin(page, attention_part);
  add_attention(page, trainer);
  begin(page, theorems_part);
  add_identities(page, story.identities);
  begin(page, machine_part);
  std::vector<std::vector<std::string>> machine;
  for (const auto& [what, value] : story.machine) machine.push_back({what, value});
  page.table({}, machine);
  return page;
}

} // namespace eg::report
