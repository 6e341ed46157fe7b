// A factorization machine's predictions for the test rows of a table.

#include "apps/report/pages/predictions.h"
#include "apps/report/pages/run_model.h"
#include "apps/report/pages/scores.h"
#include "core/base/bytes.h"
#include "core/base/json.h"
#include "core/call.h"
#include "core/ops.h"
#include "data/safetensors.h"
#include "nn/metrics.h"
#include "training/language/difm_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace eg::pages {
namespace {

using report::Chart;
using report::Page;

constexpr std::size_t most_bins = 10;

/// The final model of the run. Throws FileError while there is none.
std::unique_ptr<nn::Difm> model_of(const RunFolder& run, const training::DifmOptions& options,
                                   const data::TabularCode& code) {
  const std::string file = join_path(run.path, "model.safetensors");
  if (!file_exists(file)) throw FileError(run.path + ": has no final model yet; it is written when training is done");
  auto model = std::make_unique<nn::Difm>(training::difm_config(options, code), RandomKey{});
  model->to(options.dtype);
  model->load_state_dict(data::load_safetensors(file).tensors);
  model->eval();
  return model;
}

/// Logits of the first `count` rows. Fields are left in order: the model gives the same for any order of them.
std::vector<double> logits_of(const nn::Difm& model, const data::TabularRows& rows, std::int64_t count,
                              const training::DifmOptions& options, const FigureOptions& o) {
  const PauseRecording pause;
  std::vector<double> logits;
  for (std::int64_t at = 0; at < count; at += options.batch) {
    leave_if_stopped(o);
    std::vector<std::int64_t> places(static_cast<std::size_t>(std::min(options.batch, count - at)));
    std::iota(places.begin(), places.end(), at);
    const data::TabularRows::Batch batch = rows.batch(places, options.dtype);
    const std::vector<double> found = model(batch.ids, batch.numbers).to(DType::f64).to_vector<double>();
    logits.insert(logits.end(), found.begin(), found.end());
  }
  return logits;
}

void add_roc(Page& page, const std::vector<double>& logits, const std::vector<std::uint8_t>& labels) {
  const std::vector<std::int64_t> wanted(labels.begin(), labels.end());
  const Shape shape{std::ssize(logits)};
  const double area = nn::auc(Tensor::from(logits, shape), Tensor::from(wanted, shape));
  RocCurve curve = roc_curve(logits, labels);
  page.chart({.title = "ROC curve",
              .x_label = "share of the others taken for it",
              .y_label = "share found",
              .series = {{.name = fmt::format("the model, AUC {:.4f}", area),
                          .x = std::move(curve.false_positive),
                          .y = std::move(curve.true_positive)},
                         {.name = "chance, AUC 0.5", .x = {0.0, 1.0}, .y = {0.0, 1.0}, .dashed = true, .width = 1.2}}},
             "Every point is a threshold. AUC is the probability that a row of the one kind scores higher than one of "
             "the other.");
}

void add_calibration(Page& page, const std::vector<double>& logits, const std::vector<std::uint8_t>& labels) {
  std::vector<double> probabilities;
  for (const double logit : logits) probabilities.push_back(1.0 / (1.0 + std::exp(-logit)));
  const Calibration found = calibration(probabilities, labels, most_bins);
  report::Series line{.name = "the model", .dots = true};
  std::vector<std::vector<std::string>> rows;
  for (const CalibrationBin& bin : found.bins) {
    line.x.push_back(bin.said);
    line.y.push_back(bin.true_share);
    rows.push_back(
        {fmt::format("{:.3f}", bin.said), fmt::format("{:.3f}", bin.true_share), std::to_string(bin.samples)});
  }
  page.chart(
      {.title = "Calibration",
       .x_label = "probability that was said",
       .y_label = "share that was so",
       .series = {std::move(line),
                  {.name = "as it should be", .x = {0.0, 1.0}, .y = {0.0, 1.0}, .dashed = true, .width = 1.2}}},
      fmt::format("Rows in {} groups of about one size by the probability that was said. Brier score {:.4f}, expected "
                  "calibration error {:.4f}.",
                  found.bins.size(), found.brier, found.expected_error));
  page.begin_details("the groups");
  page.table({"said", "was so", "rows"}, rows);
  page.end_details();
}

Predictions predictions_of(const std::vector<double>& logits, const std::vector<std::uint8_t>& labels,
                           const data::TabularCode& code) {
  const std::string other = code.negative.empty() ? "another" : code.negative;
  Predictions p{.classes = {fmt::format("{} {}", code.label, other), fmt::format("{} {}", code.label, code.positive)}};
  const Tensor one = Tensor::from(logits, {std::ssize(logits), 1});
  const std::vector<std::int64_t> wanted(labels.begin(), labels.end());
  p.add(concat({Tensor::zeros({std::ssize(logits), 1}, DType::f64), one}, 1),
        Tensor::from(wanted, {std::ssize(wanted)}));
  return p;
}

} // namespace

void add_table_figures(Page& page, const RunFolder& run, const FigureOptions& o) {
  report_progress(o, run.name + ": reading the model and its table");
  const auto options = options_in(run, training::DifmOptions(), o);
  data::TabularOptions wanted = options.table;
  wanted.stop = o.stop;
  const std::string code_file = join_path(run.path, "table.json");
  if (!file_exists(code_file))
    throw FileError(run.path + ": has no final model yet; it is written when training is done");
  const data::TabularCode code = data::tabular_code_of(read_json(code_file), code_file);
  wanted.like = &code; // a run that began from another one has that one's
  const data::Tabular table = data::open_tabular(options.data, options.data_dir, wanted);
  require_test_data(run, training::fingerprint(table.test));
  const std::unique_ptr<nn::Difm> model = model_of(run, options, table.code);
  const std::int64_t count = o.samples > 0 ? std::min(o.samples, table.test.size()) : table.test.size();
  report_progress(o, run.name + ": predicting test rows");
  const std::vector<double> logits = logits_of(*model, table.test, count, options, o);
  const std::vector<std::uint8_t> labels(table.test.labels.begin(), table.test.labels.begin() + count);
  const Predictions p = predictions_of(logits, labels, table.code);
  page.paragraph(fmt::format("The final model on {} of {} test rows of {}: {:.2f} % right.", count, table.test.size(),
                             options.data, 100.0 * static_cast<double>(p.correct()) / static_cast<double>(count)));
  add_roc(page, logits, labels);
  add_calibration(page, logits, labels);
  add_confusion(page, p);
  add_classes(page, p);
}

} // namespace eg::pages
