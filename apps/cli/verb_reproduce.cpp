// equigrad reproduce: tables and figures of the papers, done again.

#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/shell/verb.h"

#include "apps/reproduce/experiment.h"
#include "apps/reproduce/page.h"
#include "core/base/bytes.h"
#include "core/base/json.h"
#include "core/base/words.h"
#include "training/checkpoint.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

namespace eg::cli {
namespace {

using reproduce::Experiment;
using reproduce::Outcome;

/// What the command line asks for.
struct ReproduceRequest {
  std::string id;
  std::string scale = "small";
  std::string config, data_dir, markdown;
  std::string out = "out/reproduce";
  bool list = false;
};

std::vector<const Experiment*> experiments_meant(const ReproduceRequest& request) {
  std::vector<const Experiment*> meant;
  try {
    if (request.id != "all") meant.push_back(&reproduce::experiment_named(request.id));
  } catch (const ValueError& error) {
    throw UsageError(error.what());
  }
  if (request.id == "all")
    for (const Experiment& experiment : reproduce::experiments()) meant.push_back(&experiment);
  if (meant.size() > 1 && !request.config.empty())
    throw UsageError("--config is for one experiment, not for all of them");
  return meant;
}

reproduce::Plan plan_for(const Experiment& experiment, const ReproduceRequest& request, std::uint64_t seed) {
  if (request.config.empty())
    return reproduce::parse_plan(reproduce::plan_text(experiment.id),
                                 fmt::format("examples/papers/{}.json", experiment.id), request.scale, seed);
  const Bytes bytes = read_file(request.config);
  return reproduce::parse_plan({bytes.begin(), bytes.end()}, request.config, request.scale, seed);
}

std::string run_folder_of(const Experiment& experiment, const reproduce::Plan& plan, const ReproduceRequest& request) {
  return join_path(request.out, fmt::format("{}-{}", experiment.id, plan.scale));
}

int list_experiments(const CommonOptions& common) {
  nlohmann::json json = nlohmann::json::array();
  std::string text;
  for (const Experiment& e : reproduce::experiments()) {
    text += fmt::format("{:<10} {} ({})\n", e.id, e.title, e.place);
    json.push_back({{"id", e.id}, {"title", e.title}, {"place", e.place}});
  }
  if (common.talks()) say(text);
  write_json(common, {{"experiments", json}});
  return done;
}

Outcome do_again(const Experiment& experiment, const ReproduceRequest& request, const CommonOptions& common) {
  const reproduce::Plan plan = plan_for(experiment, request, common.seed == 0 ? 1 : common.seed);
  Progress progress(!common.quiet);
  const reproduce::RunContext work{.data_dir = request.data_dir,
                                   .folder = run_folder_of(experiment, plan, request),
                                   .stop = &stop_flag(),
                                   .on_progress = [&](double share, const std::string& what) {
                                     progress.show(share, 1.0, {{experiment.id, 1}, {what, 2}});
                                   }};
  Outcome outcome = reproduce::reproduce(experiment, plan, work);
  progress.clear();
  training::make_folder(work.folder);
  eg::write_json(join_path(work.folder, "result.json"), to_json(outcome));
  if (common.talks()) say(text_of(outcome) + "\n");
  return outcome;
}

int reproduce_all(const ReproduceRequest& request, const CommonOptions& common) {
  const std::vector<const Experiment*> meant = experiments_meant(request);
  const std::string report = join_path(request.out, fmt::format("{}.html", request.id));
  common.files->makes(report);
  for (const Experiment* experiment : meant)
    common.files->makes(run_folder_of(*experiment, plan_for(*experiment, request, 1), request));
  common.files->check();
  require_writable(request.markdown);
  training::make_folder(request.out);
  std::vector<Outcome> outcomes;
  std::size_t failed = 0;
  for (const Experiment* experiment : meant) try {
      outcomes.push_back(do_again(*experiment, request, common));
    } catch (const Interrupted&) {
      throw;
    } catch (const Error& e) { // hours of the others are not lost for a set that is not there
      if (++failed == meant.size()) throw;
      std::fputs(fmt::format("equigrad: {}: {}\n", experiment->id, printable(e.what())).c_str(), stderr);
    }
  write_result(report, reproduce::page_of(outcomes).html());
  std::string markdown = outcomes.size() > 1 ? reproduce::markdown_table(outcomes) : "";
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const Outcome& outcome : outcomes) {
    markdown += markdown_of(outcome);
    results.push_back(to_json(outcome));
  }
  if (!request.markdown.empty()) write_result(request.markdown, markdown);
  if (common.talks()) say(fmt::format("report: {}\n", report));
  write_json(common, nlohmann::json{{"results", results}, {"report", report}});
  const bool holds = std::all_of(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return o.holds(); });
  return failed > 0 ? bad_input : holds ? done : check_failed;
}

} // namespace

Job declare_reproduce(CLI::App& app, const CommonOptions& common) {
  auto request = std::make_shared<ReproduceRequest>();
  app.add_option("id", request->id, "Which table or figure (--list names them), or all")->type_name("ID");
  app.add_flag("--list", request->list, "Name the experiments and stop");
  app.add_option("--scale", request->scale, "small: minutes on two cores; full: hours")
      ->type_name("NAME")
      ->capture_default_str();
  common.files
      ->input(
          app.add_option("--config", request->config, "Another plan than the built-in one (examples/papers/ID.json)"))
      ->type_name("FILE");
  common.files
      ->data_folder(
          app.add_option("--data-dir", request->data_dir, "Folder with the datasets (default: EQUIGRAD_DATA)"))
      ->type_name("FOLDER");
  common.files
      ->told_by_verb(app.add_option(
          "--out", request->out,
          "Folder for ID.html and the training runs, which are gone on with when the same command was interrupted"))
      ->type_name("FOLDER")
      ->capture_default_str();
  common.files->result(app.add_option("--markdown", request->markdown, "Write the tables as Markdown to this file"))
      ->type_name("FILE");
  return [request, &common, &app]() -> int {
    if (request->list) {
      require_alone(app, "--list");
      return list_experiments(common);
    }
    if (request->id.empty()) throw UsageError("no experiment was given; --list names them");
    if (request->config.empty() && request->scale != "small" && request->scale != "full")
      throw UsageError(fmt::format("--scale: '{}' is not one of full, small", request->scale));
    try {
      return reproduce_all(*request, common);
    } catch (const Interrupted& error) {
      throw Interrupted(fmt::format("{}; the same command goes on from there", error.what()));
    }
  };
}

} // namespace eg::cli
