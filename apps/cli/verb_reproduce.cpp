// equigrad reproduce: tables and figures of the papers, done again.

#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/shell/spread.h"
#include "apps/cli/shell/verb.h"

#include "apps/reproduce/experiment.h"
#include "apps/reproduce/outcome_record.h"
#include "apps/reproduce/page.h"
#include "core/base/bytes.h"
#include "core/base/json.h"
#include "core/base/words.h"
#include "distributed/communicator.h"
#include "training/checkpoint.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <unistd.h>

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
  if (request.id == "all")
    for (const Experiment& experiment : reproduce::experiments()) meant.push_back(&experiment);
  else
    for (const std::string& id : words_of_list(request.id)) try {
        meant.push_back(&reproduce::experiment_named(id));
        if (std::count(meant.begin(), meant.end(), meant.back()) > 1)
          throw UsageError(fmt::format("the experiment {} is named twice", id));
      } catch (const ValueError& error) {
        throw UsageError(error.what());
      }
  if (meant.empty()) throw UsageError("no experiment was given; --list names them");
  if (meant.size() > 1 && !request.config.empty()) throw UsageError("--config is for one experiment, not for several");
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

/// What became of one experiment: an outcome, or why there is none.
struct Attempt {
  std::optional<Outcome> outcome = {};
  std::string trouble = {};
};

nlohmann::json to_record(const Attempt& attempt) {
  if (!attempt.outcome) return attempt.trouble;
  return nlohmann::json::array({reproduce::to_record(*attempt.outcome)});
}

Attempt attempt_of_record(const nlohmann::json& record) {
  if (record.is_string()) return {.trouble = record.get<std::string>()};
  return {.outcome = reproduce::outcome_of_record(record.at(0))};
}

Outcome do_again(const Experiment& experiment, const ReproduceRequest& request, const CommonOptions& common,
                 Progress& progress) {
  const reproduce::Plan plan = plan_for(experiment, request, common.seed == 0 ? 1 : common.seed);
  const reproduce::RunContext work{.data_dir = request.data_dir,
                                   .folder = run_folder_of(experiment, plan, request),
                                   .stop = &stop_flag(),
                                   .on_progress = [&](double share, const std::string& what) {
                                     progress.show(share, 1.0, {{experiment.id, 1}, {what, 2}});
                                   }};
  Outcome outcome = reproduce::reproduce(experiment, plan, work);
  progress.clear();
  if (const std::string sharing = sharing_words(common); experiment.times && !sharing.empty())
    outcome.remarks.push_back(sharing);
  training::make_folder(work.folder);
  eg::write_json(join_path(work.folder, "result.json"), to_json(outcome));
  return outcome;
}

/// The error of another process says which one it was.
std::string named_trouble(const CommonOptions& common, const char* what) {
  if (alone(common)) return what;
  const int rank = common.processes->rank();
  return fmt::format("{}: {}", common.processes->processes()[static_cast<std::size_t>(rank)].words(rank), what);
}

/// Makes the folder, and throws FileError where some process sees another one: what one of them writes there is read by
/// the others, now or when the command is given again.
void make_common_folder(const std::string& folder, const CommonOptions& common) {
  if (speaks(common)) training::make_folder(folder);
  if (alone(common)) return;
  distributed::Communicator& processes = *common.processes;
  const std::string name =
      processes.broadcast(fmt::format(".processes-{}-{}", processes.processes().front().host, ::getpid()));
  const std::string mark = join_path(folder, name);
  if (speaks(common)) write_file(mark, Bytes());
  processes.barrier();
  std::error_code ignored;
  const bool seen = std::filesystem::exists(mark, ignored);
  const std::vector<std::string> all = processes.gather(seen ? "1" : "0");
  if (speaks(common)) std::filesystem::remove(mark, ignored);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != "1")
      throw FileError(fmt::format("{}: {} sees another folder there; --out must be on a file system that all processes "
                                  "share",
                                  folder, processes.processes()[rank].words(static_cast<int>(rank))));
}

/// Does the experiments again; processes share them. What is finished is printed in the order of the experiments.
std::vector<Attempt> attempts_at(const std::vector<const Experiment*>& meant, const ReproduceRequest& request,
                                 const CommonOptions& common) {
  Progress progress(!common.quiet);
  SpreadOptions<Attempt> how;
  for (const Experiment* experiment : meant) how.costs.push_back(experiment->seconds);
  std::size_t number = 0, failed = 0;
  how.on_result = [&](const Attempt& attempt) {
    const Experiment& experiment = *meant[number++];
    progress.clear();
    if (attempt.outcome) {
      if (common.talks()) say(text_of(*attempt.outcome) + "\n");
    } else if (++failed < meant.size()) {
      std::fputs(fmt::format("equigrad: {}: {}\n", experiment.id, printable(attempt.trouble)).c_str(), stderr);
    }
  };
  const auto run = [&](std::size_t i) -> Attempt {
    try {
      return {.outcome = do_again(*meant[i], request, common, progress)};
    } catch (const Interrupted&) {
      throw;
    } catch (const Error& e) { // hours of the others are not lost for a set that is not there
      progress.clear();
      return {.trouble = named_trouble(common, e.what())};
    }
  };
  return spread<Attempt>(common, meant.size(), run, {to_record, attempt_of_record}, how);
}

int reproduce_all(const ReproduceRequest& request, const CommonOptions& common) {
  const std::vector<const Experiment*> meant = experiments_meant(request);
  const std::string report = join_path(request.out, fmt::format("{}.html", request.id));
  common.files->makes(report);
  for (const Experiment* experiment : meant)
    common.files->makes(run_folder_of(*experiment, plan_for(*experiment, request, 1), request));
  common.files->check();
  require_writable(request.markdown);
  make_common_folder(request.out, common);
  std::vector<Outcome> outcomes;
  std::string trouble;
  const std::vector<Attempt> attempts = attempts_at(meant, request, common);
  for (const Attempt& attempt : attempts)
    if (attempt.outcome)
      outcomes.push_back(*attempt.outcome);
    else
      trouble = attempt.trouble;
  if (outcomes.empty()) throw Error(trouble);
  std::string markdown = outcomes.size() > 1 ? reproduce::markdown_table(outcomes) : "";
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const Outcome& outcome : outcomes) {
    markdown += markdown_of(outcome);
    results.push_back(to_json(outcome));
  }
  if (speaks(common)) {
    write_result(report, reproduce::page_of(outcomes).html());
    if (!request.markdown.empty()) write_result(request.markdown, markdown);
    if (common.talks()) say(fmt::format("report: {}\n", report));
    say_sharing(common);
    write_json(common, nlohmann::json{{"results", results}, {"report", report}});
  }
  const bool holds = std::all_of(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return o.holds(); });
  // This status ends all processes at once, and the first one has results to write.
  if (!alone(common)) common.processes->barrier();
  return outcomes.size() < meant.size() ? bad_input : holds ? done : check_failed;
}

} // namespace

Job declare_reproduce(CLI::App& app, const CommonOptions& common) {
  auto request = std::make_shared<ReproduceRequest>();
  app.add_option("id", request->id, "Which tables or figures (--list names them), with commas between them, or all")
      ->type_name("ID");
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
