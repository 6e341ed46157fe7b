// equigrad report: runs side by side, on one page.

#include "apps/cli/named_data.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/core_dumps.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/shell/verb.h"

#include "apps/report/pages/runs_report.h"
#include "core/base/bytes.h"
#include "training/checkpoint.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

namespace eg::cli {
namespace {

struct ReportRequest {
  std::vector<std::string> runs;
  std::string out = "out/runs.html";
  std::string data, data_dir, key;
  std::int64_t samples = 1000;
};

/// What the runs were made from, which their figures may read again.
void add_sources(CommandFiles& files, const std::vector<pages::RunFolder>& folders) {
  for (const pages::RunFolder& run : folders)
    for (const char* name : {"data", "validation", "tokenizer", "from", "teacher", "key", "data_dir"})
      if (const auto source = run.options.find(name); source != run.options.end() && source->is_string()) {
        if (name == std::string_view("data_dir"))
          files.reads_sets_of(source->get<std::string>());
        else if (name == std::string_view("data"))
          files.reads(data_path(run.model, source->get<std::string>()));
        else
          files.reads(source->get<std::string>());
      }
}

double last_or_nan(const pages::Curve& curve) { return curve.value.empty() ? std::nan("") : curve.value.back(); }

nlohmann::json result_json(const std::string& out, const std::vector<pages::RunFolder>& folders,
                           const std::vector<std::string>& notes) {
  nlohmann::json json = {{"report", out}, {"runs", nlohmann::json::array()}, {"notes", notes}};
  for (const pages::RunFolder& run : folders) {
    nlohmann::json one = {{"run", run.path}, {"name", run.name}, {"model", run.model}, {"steps", run.step}};
    for (const char* metric : {"loss", "accuracy", "auc"})
      if (const double value = last_or_nan(run.curve(data::Split::test, metric)); !std::isnan(value))
        one[metric] = value;
    if (run.best_step > 0) one["best_step"] = run.best_step;
    json["runs"].push_back(std::move(one));
  }
  return json;
}

bool has_key(const pages::RunFolder& run) {
  const auto key = run.options.find("key");
  return key != run.options.end() && key->is_string() && !key->get_ref<const std::string&>().empty();
}

int report(const ReportRequest& r, const CommonOptions& common) {
  const std::vector<pages::RunFolder> folders = pages::read_runs(r.runs);
  const bool keyed = std::any_of(folders.begin(), folders.end(), has_key);
  if (keyed) disable_core_dumps();
  if (!keyed && !r.key.empty()) throw UsageError("--key: none of the runs was trained with a secret key");
  add_sources(*common.files, folders);
  common.files->writes(r.out);
  common.files->check();
  if (const auto parent = std::filesystem::path(r.out).parent_path(); parent == "out")
    std::filesystem::create_directories(parent);
  require_writable(r.out);
  Progress progress(!common.quiet);
  double reported = 0.0;
  const pages::FigureOptions options{
      .data_dir = r.data_dir,
      .data = r.data,
      .key = r.key,
      .samples = r.samples,
      .seed = common.seed,
      .stop = &stop_flag(),
      .on_progress = [&](const std::string& what) {
        throw_if_stopped();
        // Three pieces of work a run, about.
        progress.show(reported++, 3.0 * static_cast<double>(folders.size()), {{what, 1}});
      }};
  const pages::RunsReport made = pages::runs_report(folders, options);
  write_result(r.out, made.page.html());
  progress.clear();
  for (const std::string& note : made.notes) std::fputs(fmt::format("equigrad: {}\n", note).c_str(), stderr);
  if (common.talks()) say(fmt::format("report: {}\n", r.out));
  write_json(common, result_json(r.out, folders, made.notes));
  return done;
}

} // namespace

Job declare_report(CLI::App& app, const CommonOptions& common) {
  auto r = std::make_shared<ReportRequest>();
  common.files->input(app.add_option("runs", r->runs, "Run folders of `equigrad train`"))
      ->required()
      ->type_name("RUN...");
  common.files->told_by_verb(app.add_option("--out", r->out, "The page (default out/runs.html)"))
      ->type_name("FILE.html");
  common.files
      ->input(app.add_option("--data", r->data,
                             "The data of the runs, where it has moved (default: where each found its own)"))
      ->type_name("DATA");
  common.files
      ->data_folder(app.add_option("--data-dir", r->data_dir,
                                   "Folder with the datasets (default: the run's, else EQUIGRAD_DATA)"))
      ->type_name("DIR");
  common.files
      ->input(app.add_option("--key", r->key,
                             "Secret key file of runs that were trained with one (default: where each found its own)"))
      ->type_name("FILE");
  app.add_option("--samples", r->samples, "Test samples that each model is asked about; 0: all (default 1000)")
      ->check(whole_number(0, std::int64_t{1} << 40))
      ->type_name("N");
  return [r, &common]() -> int { return report(*r, common); };
}

} // namespace eg::cli
