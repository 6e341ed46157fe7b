#include "apps/cli/device_flag.h"
#include "apps/cli/explain_text.h"
#include "apps/cli/main_job/verify_job.h"
#include "apps/cli/model_files.h"
#include "apps/cli/model_symmetries.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/available_data.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/shell/spread.h"
#include "apps/cli/shell/verb.h"
#include "apps/cli/verify_model.h"

#include "apps/report/pages/theorem_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <unistd.h>

namespace eg::cli {

namespace {

/// Throws UsageError for sizes out of range, a filter that fits nothing, or nothing that the device can compute, and
/// steps where nothing is trained.
void check_request(const permute::VerifyOptions& options, bool steps_given) {
  try {
    permute::check(options);
  } catch (const ValueError& error) {
    throw UsageError(error.what());
  }
  const std::vector<const permute::Identity*> meant = identities_meant(options.filter);
  if (identities_left_out(options).size() == meant.size())
    throw UsageError("verify: " + permute::why_not_on(*meant.front(), options.device));
  const bool trains = std::any_of(meant.begin(), meant.end(), [](const permute::Identity* identity) {
    return identity->gate == permute::Gate::training;
  });
  if (steps_given && !trains)
    throw UsageError(fmt::format("--steps has no effect: no identity that fits '{}' trains", options.filter));
}

/// Throws UsageError for options that a model folder answers.
void check_of_model(const CLI::App& app) {
  for (const char* option : {"--dim", "--heads", "--hidden", "--layers", "--steps"})
    if (app.count(option) > 0) throw UsageError(fmt::format("{} has no effect with --model", option));
}

/// Throws UsageError for options that --explain, which is about one row of the catalogue, does not look at.
void check_of_explanation(const CLI::App& app) {
  for (const char* option : {"--filter", "--model", "--report", "--data-dir"})
    if (app.count(option) > 0) throw UsageError(fmt::format("{} has no effect with --explain", option));
}

/// The row that `id` means. Throws UsageError when it is none, or several.
const permute::Identity& one_identity(const std::string& id) {
  const std::vector<const permute::Identity*> meant = identities_meant(id);
  if (meant.size() == 1) return *meant.front();
  std::vector<std::string> ids;
  for (const permute::Identity* row : meant) ids.push_back(row->id);
  throw UsageError(fmt::format("--explain takes one row; '{}' means {}: {}", id, ids.size(), fmt::join(ids, ", ")));
}

/// The row's small sizes, but for those that were given.
permute::VerifyOptions explained_sizes(const CLI::App& app, const permute::Identity& row,
                                       const permute::VerifyOptions& given) {
  permute::VerifyOptions options = permute::small_sizes(row);
  const auto take = [&](const char* flag, std::int64_t permute::VerifyOptions::*size) {
    if (app.count(flag) > 0) options.*size = given.*size;
  };
  take("--batch", &permute::VerifyOptions::batch);
  take("--tokens", &permute::VerifyOptions::tokens);
  take("--dim", &permute::VerifyOptions::dim);
  take("--heads", &permute::VerifyOptions::heads);
  take("--hidden", &permute::VerifyOptions::hidden);
  take("--layers", &permute::VerifyOptions::layers);
  take("--steps", &permute::VerifyOptions::steps);
  options.seed = given.seed;
  options.exact = given.exact;
  options.device = given.device;
  options.filter = row.id;
  return options;
}

/// Prints both sides of one row in each dtype.
int explain_row(const permute::Identity& row, permute::VerifyOptions options, const std::vector<DType>& dtypes,
                const CommonOptions& common) {
  const bool terminal = obeys_escapes(STDOUT_FILENO);
  const ExplainStyle style{.width = terminal_width(STDOUT_FILENO, ExplainStyle{}.width),
                           .colours = terminal && std::getenv("NO_COLOR") == nullptr};
  std::vector<permute::Explanation> explanations;
  for (const DType dtype : dtypes) {
    options.dtype = dtype;
    explanations.push_back(permute::explain(row, options));
    throw_if_stopped();
    if (common.talks()) say((explanations.size() > 1 ? "\n" : "") + explanation_text(explanations.back(), style));
  }
  write_json(common, nlohmann::json::parse(permute::to_json(explanations)));
  return std::any_of(explanations.begin(), explanations.end(), [](const auto& e) { return e.result.failed(); })
             ? check_failed
             : done;
}

/// Throws UsageError for what a device cannot do.
void check_of_device(const permute::VerifyOptions& options) {
  if (options.exact && !options.device.is_cpu())
    throw UsageError(fmt::format("--exact computes on the CPU alone: matrix products have no exact kernel for {}; "
                                 "give --device cpu",
                                 options.device.str()));
}

/// Says which rows the device cannot compute, and adds their ids to the summary of the JSON.
void tell_left_out(const permute::VerifyOptions& options, const CommonOptions& common, nlohmann::json& json) {
  for (const permute::Identity* row : identities_left_out(options)) {
    if (common.talks()) say(fmt::format("Left out: {}.\n", permute::why_not_on(*row, options.device)));
    json["summary"]["left_out"].push_back(row->id);
  }
}

/// The axes of a model folder's parameters, for the page's picture.
void show_axes_of(const std::string& folder, report::TheoremReportOptions& options) {
  constexpr std::size_t most = 48; // some blocks: the others repeat them
  const OutlinedModel outlined = outline_folder(folder, true);
  const nn::StateDict tensors = outlined.tensors();
  options.axes = report::diagram_of(outlined.symmetries, tensors, most);
  options.axes_caption =
      fmt::format("{} of the {} tensors of {}, each with the groups that permute its axes; equigrad "
                  "symmetries lists all of them. The model's keys have {:.0f} bits.",
                  options.axes.parameters.size(), tensors.size(), folder, outlined.symmetries.log2_count());
}

/// Writes the page, or leaves what is there as it is when Ctrl-C comes first.
void write_report(const std::vector<permute::VerifyResult>& results, const std::string& path,
                  report::TheoremReportOptions options, bool show_progress) {
  Progress progress(show_progress);
  if (!options.model.empty()) show_axes_of(options.model, options);
  options.stop = &stop_flag();
  options.on_progress = [&](double part, const std::string& what) {
    throw_if_stopped();
    progress.show(part, 1.0, {{"report: " + what, 1}});
  };
  const report::Page page = report::theorem_report(results, options);
  throw_if_stopped();
  write_result(path, page.html());
}

} // namespace

Job declare_verify(CLI::App& app, const CommonOptions& common) {
  struct Request {
    permute::VerifyOptions options;
    std::string dtype = "both";
    std::string explain, report, model, data_dir, device;
  };
  auto request = std::make_shared<Request>();
  permute::VerifyOptions& o = request->options;
  app.add_option(
         "--filter", o.filter,
         "Which rows: a pattern for the whole id, in which * stands for any characters and ? for one (eq45, thm*, "
         "eq7?, *adam); eqN also finds the rows that hold equation N. In quotes, or the shell may expand it. The "
         "ids are those of docs/catalogue.md")
      ->type_name("GLOB")
      ->capture_default_str();
  app.add_option("--explain", request->explain,
                 "Print one row: statement, formula, sizes, and both sides and the control as matrices. Sizes that are "
                 "not given "
                 "are small, and numbers are f64 unless --dtype is given")
      ->type_name("ID");
  app.add_option("--dtype", request->dtype, "f64, f32 or both")
      ->check(one_of({"f64", "f32", "both"}))
      ->type_name("TYPE")
      ->capture_default_str();
  app.add_option("--tokens", o.tokens, "Rows of Z")
      ->check(whole_number(1, 4096))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--dim", o.dim, "Columns of Z")->check(whole_number(1, 4096))->type_name("N")->capture_default_str();
  app.add_option("--heads", o.heads, "Attention heads")
      ->check(whole_number(1, 4096))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--hidden", o.hidden, "Width of the MLP")
      ->check(whole_number(1, 4096))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--layers", o.layers, "Encoder blocks of the models")
      ->check(whole_number(1, 4096))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--batch", o.batch, "Samples, each with a P_R of its own")
      ->check(whole_number(1, 4096))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--steps", o.steps, "Training steps of the twins")
      ->check(whole_number(1, 4096))
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--exact", o.exact,
               "Exact reductions, on the CPU: sums that no order changes, so that both sides of a row have the same "
               "bits");
  add_device(app, request->device);
  common.files
      ->input(app.add_option(
          "--model", request->model,
          "Check the blocks of this model folder, with its weights, instead of the catalogue; sizes are the "
          "model's, but for --batch and --tokens"))
      ->type_name("DIR");
  common.files
      ->result(app.add_option(
          "--report", request->report,
          "Also write one HTML file with every row's statement, formula and numbers, and figures that are "
          "computed for it (some seconds)"))
      ->type_name("FILE");
  common.files
      ->data_folder(app.add_option(
          "--data-dir", request->data_dir,
          "Folder with cifar10/ for the report's images (default: EQUIGRAD_DATA; generated ones without it)"))
      ->type_name("DIR");
  return [request, &common, &app]() -> int {
    const bool given = !request->model.empty();
    request->options.device = requested_device(request->device);
    check_of_device(request->options);
    if (app.count("--seed") > 0) request->options.seed = common.seed;
    std::vector<DType> dtypes;
    if (request->dtype != "f32") dtypes.push_back(DType::f64);
    if (request->dtype != "f64") dtypes.push_back(DType::f32);
    if (app.count("--explain") > 0) {
      check_of_explanation(app);
      const permute::Identity& row = one_identity(request->explain);
      const permute::VerifyOptions options = explained_sizes(app, row, request->options);
      check_request(options, app.count("--steps") > 0);
      if (app.count("--dtype") == 0) dtypes = {DType::f64};
      return explain_row(row, options, dtypes, common);
    }
    if (given)
      check_of_model(app);
    else
      check_request(request->options, app.count("--steps") > 0);
    if (request->report.empty() && !request->data_dir.empty())
      throw UsageError("--data-dir has no effect without --report");
    if (!speaks(common)) request->report.clear();
    report::TheoremReportOptions report;
    if (!request->report.empty()) report.data = available_data(request->data_dir);
    report.data_dir = request->data_dir;
    report.seed = request->options.seed;
    report.model = request->model;
    require_writable(request->report);
    const std::vector<permute::VerifyResult> results =
        given ? verify_model(request->model, request->options, dtypes, common)
              : verify_all(request->options, dtypes, common);
    if (common.talks()) print_table(results);
    say_sharing(common);
    nlohmann::json json = nlohmann::json::parse(permute::to_json(results));
    if (!given) tell_left_out(request->options, common, json);
    write_json(common, json);
    if (!request->report.empty()) write_report(results, request->report, report, !common.quiet);
    return failures(results) == 0 ? done : check_failed;
  };
}

} // namespace eg::cli
