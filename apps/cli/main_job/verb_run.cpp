// The main job: what the program runs on, the theorems, a ViT trained plain and permuted side by side, and a report.

#include "apps/cli/main_job/doctor.h"
#include "apps/cli/main_job/verify_job.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/available_data.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/shell/verb.h"

#include "apps/report/run_report.h"
#include "core/base/bytes.h"
#include "training/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>

namespace eg::cli {
namespace {

using permute::PermuteMode;
using training::Record;
using training::VitOptions;

/// What the command line asks for.
struct RunRequest {
  std::string data_dir;
  std::string out = "out";
  std::int64_t steps = 600;
};

/// Goes on with the run that is in the folder when it is this very one and was interrupted, and begins anew otherwise.
VitOptions twin_options(const CommonOptions& common, const RunRequest& request) {
  VitOptions options;
  options.data = available_data(request.data_dir, "fashion-mnist", "digits"); // learnt within the main job's time
  options.data_dir = request.data_dir;
  options.steps = request.steps;
  options.checkpoint_every = 50;
  options.test_limit = 1000;
  options.model.patch = 7; // 16 tokens
  options.model.layers = 2;
  options.model.encoder.dim = 64;
  options.model.encoder.heads = 4;
  options.model.encoder.mlp = 128;
  options.batch = 128;
  options.optimizer = "adam";
  options.lr = 3e-3;
  options.warmup = 50;
  options.drift_every = 5;
  options.dtype = DType::f64; // so that what is left of the drift is the theorem's, not f32's rounding under Adam
  options.seed = common.seed;
  options.out = join_path(request.out, "run");
  options.variants = {PermuteMode::none, PermuteMode::rows, PermuteMode::columns, PermuteMode::both};
  if (training::unfinished_run(options))
    options.resume = options.out;
  else
    options.overwrite = true; // the folder is the main job's own
  return options;
}

/// Where coupled variants are compared: their weights may differ by rounding alone.
struct DriftGate {
  std::int64_t step = 0;
  double most = 0.0;
  std::vector<double> drift; ///< of every variant at that step; the plain one has none

  bool holds(std::size_t variant) const { return std::isnan(drift[variant]) || drift[variant] < most; }
  bool holds() const {
    for (std::size_t v = 0; v < drift.size(); ++v)
      if (!holds(v)) return false;
    return true;
  }
};

/// The catalogue's gate for training twins, after as many steps as there, or at the end of a shorter run.
DriftGate drift_gate(const report::RunStory& story, DType dtype) {
  const auto at = std::find_if(story.steps.begin(), story.steps.end(), [](const training::Record& r) {
    return r.step == permute::VerifyOptions{}.steps && !std::isnan(r.variants.back().drift);
  });
  const training::Record& measured = at != story.steps.end() ? *at : story.test;
  DriftGate gate{.step = measured.step, .most = permute::tolerance(permute::Gate::training, dtype), .drift = {}};
  for (const training::VariantRecord& v : measured.variants) gate.drift.push_back(v.drift);
  return gate;
}

std::string drift_text(double drift) { return std::isnan(drift) ? "-" : fmt::format("{:.1e}", drift); }

void print_variants(const training::Record& test, const DriftGate& gate) {
  std::string text = fmt::format("{:<10} {:>12} {:>10} {:>14} {:>14} {:>9}\n", "permuted", "test loss", "accuracy",
                                 "drift at end", fmt::format("at step {}", gate.step), "gate");
  for (std::size_t i = 0; i < test.variants.size(); ++i) {
    const training::VariantRecord& v = test.variants[i];
    const bool gated = !std::isnan(gate.drift[i]);
    text +=
        fmt::format("{:<10} {:>12.6f} {:>8.2f} % {:>14} {:>14} {:>9}  {}\n", name_of(v.mode), v.loss, 100 * v.accuracy,
                    drift_text(v.drift), drift_text(gate.drift[i]), gated ? fmt::format("{:.0e}", gate.most) : "-",
                    !gated          ? ""
                    : gate.holds(i) ? "pass"
                                    : "FAIL");
  }
  say(text);
}

/// Trains all variants in step; fills the story.
void train_twins(training::VitTrainer& trainer, report::RunStory& story, bool show_progress) {
  for (const training::Record& r : trainer.history())
    if (r.split == data::Split::train) story.steps.push_back(r);
  Progress progress(show_progress);
  training::Callbacks callbacks;
  callbacks.step = [&](const training::Record& r) {
    story.steps.push_back(r);
    const training::VariantRecord& first = r.variants.front();
    const training::VariantRecord& last = r.variants.back();
    progress.show(static_cast<double>(r.step), static_cast<double>(trainer.total_steps()),
                  {{fmt::format("step {}/{}", r.step, trainer.total_steps()), 1},
                   {fmt::format("loss plain {:.4f}", first.loss), 3},
                   {fmt::format("loss permuted {:.4f}", last.loss), 4}});
  };
  callbacks.test = [&](const training::Record& r) {
    story.test = r;
    progress.clear();
  };
  story.test = trainer.run(callbacks, &stop_flag()).test;
}

nlohmann::json summary(const report::RunStory& story, const DriftGate& gate, const std::string& report) {
  nlohmann::json variants = nlohmann::json::array();
  for (const training::VariantRecord& v : story.test.variants)
    variants.push_back({{"permute", name_of(v.mode)},
                        {"loss", v.loss},
                        {"accuracy", v.accuracy},
                        {"drift", std::isnan(v.drift) ? nlohmann::json() : nlohmann::json(v.drift)}});
  nlohmann::json json = nlohmann::json::parse(permute::to_json(story.identities));
  json["training"] = {
      {"steps", story.test.step},
      {"variants", variants},
      {"drift_gate", {{"step", gate.step}, {"most", gate.most}, {"status", gate.holds() ? "pass" : "fail"}}}};
  json["report"] = report;
  return json;
}

/// The command that resumes where this one was interrupted.
std::string same_command(const CommonOptions& common, const RunRequest& request) {
  std::string command = fmt::format("equigrad run --out {} --steps {}", shell_word(request.out), request.steps);
  if (!request.data_dir.empty()) command += " --data-dir " + shell_word(request.data_dir);
  if (common.seed != 0) command += fmt::format(" --seed {}", common.seed);
  return command;
}

std::string heading(const training::VitTrainer& trainer) {
  return fmt::format("\n== A ViT on {}, plain and permuted from coupled weights: {} steps of {} images{} ==\n",
                     trainer.train_data().name(), trainer.total_steps(), trainer.options().batch,
                     trainer.step() > 0 ? fmt::format(", going on from step {}", trainer.step()) : "");
}

int main_job(const CommonOptions& common, const RunRequest& request) {
  report::RunStory story;
  const std::string report = join_path(request.out, "report.html");
  common.files->makes(report);
  common.files->makes(join_path(request.out, "run"));
  common.files->check();
  const VitOptions options = twin_options(common, request); // refuses a missing folder before the work begins
  story.machine = doctor_lines();
  if (common.talks()) print_doctor(story.machine);
  // Everything that can be refused is refused before the first wait.
  training::VitTrainer trainer(options, &stop_flag());
  require_writable(report);
  training::remove_leftovers_of(report);
  if (!common.quiet)
    for (const std::string& note : trainer.notes()) std::fputs(fmt::format("equigrad: {}\n", note).c_str(), stderr);
  if (common.talks()) say("\n== The theorems ==\n");
  story.identities = verify_all({}, {DType::f64, DType::f32}, common);
  if (common.talks()) print_table(story.identities);
  if (common.talks()) say(heading(trainer));
  train_twins(trainer, story, !common.quiet);
  const DriftGate gate = drift_gate(story, options.dtype);
  if (common.talks()) print_variants(story.test, gate);
  write_result(report, report::run_report(story, trainer).html());
  if (common.talks()) say(fmt::format("\nreport: {}\n", report));
  write_json(common, summary(story, gate, report));
  return failures(story.identities) == 0 && gate.holds() ? done : check_failed;
}

} // namespace

Job declare_run(CLI::App& app, const CommonOptions& common) {
  auto request = std::make_shared<RunRequest>();
  common.files
      ->data_folder(
          app.add_option("--data-dir", request->data_dir, "Folder with the datasets (default: EQUIGRAD_DATA)"))
      ->type_name("FOLDER");
  common.files
      ->told_by_verb(
          app.add_option("--out", request->out,
                         "Folder for report.html and the training run (OUT/run: gone on with when the same command was "
                         "interrupted, overwritten otherwise)"))
      ->type_name("FOLDER")
      ->capture_default_str();
  app.add_option("--steps", request->steps, "Training steps")
      ->check(whole_number(1, 100000))
      ->type_name("N")
      ->capture_default_str();
  return [request, &common]() -> int {
    try {
      return main_job(common, *request);
    } catch (const Interrupted& e) {
      throw Interrupted(
          fmt::format("{}; the same command goes on from there: {}", e.what(), same_command(common, *request)));
    }
  };
}

} // namespace eg::cli
