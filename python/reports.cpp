// Pages, charts and pictures, and the attacks with their tables.

#include "apps/attacks/request.h"
#include "apps/report/chart.h"
#include "apps/report/pages/runs_report.h"
#include "apps/report/pictures.h"
#include "apps/report/run_report.h"
#include "core/base/bytes.h"

#include "bindings.h"
#include "stoppable.h"

#include <fmt/format.h>
#include <nanobind/stl/tuple.h>
#include <nlohmann/json.hpp>

namespace eg::python {
namespace {

/// The page that compares runs, and the notes on what it could not show.
std::pair<std::string, std::vector<std::string>> runs_page(const std::vector<std::string>& runs,
                                                           const std::string& data, const std::string& data_dir,
                                                           const std::string& key, std::int64_t samples,
                                                           std::uint64_t seed) {
  return stoppable([&](StopFlag stop) {
    const auto go_on = [stop] {
      if (stop != nullptr && stop->load()) throw Interrupted("report: interrupted");
    };
    const InterruptScope scope(go_on);
    const pages::RunsReport made =
        pages::runs_report(pages::read_runs(runs), {.data_dir = data_dir,
                                                    .data = data,
                                                    .key = key,
                                                    .samples = samples,
                                                    .seed = seed,
                                                    .stop = stop,
                                                    .on_progress = [&](const std::string&) { go_on(); }});
    return std::pair(made.page.html(), made.notes);
  });
}

/// The main job's page, of a run of a ViT with a plain variant: its curves and models, and the theorems, which are
/// measured now. Throws ValueError for another run.
std::string main_page(const std::string& folder, const std::vector<std::pair<std::string, std::string>>& machine) {
  return stoppable([&](StopFlag stop) {
    const auto go_on = [stop] {
      if (stop != nullptr && stop->load()) throw Interrupted("report: interrupted");
    };
    const InterruptScope scope(go_on);
    training::VitOptions options = training::options_of_run(folder);
    options.out.clear(); // nothing is written and nothing locked
    const training::VitTrainer trainer(options, stop);
    if (trainer.variants() < 2 || trainer.mode(0) != permute::PermuteMode::none)
      throw ValueError(fmt::format("report: {} trained no plain model beside a permuted one (twin=True, or variants=["
                                   "'none', 'rows', 'columns', 'both'])",
                                   folder));
    report::RunStory story{.machine = machine, .identities = {}, .steps = {}, .test = {}};
    for (training::Record& record : training::read_records(join_path(folder, "metrics.jsonl"), trainer.step(),
                                                           trainer.mode(trainer.variants() - 1), trainer.unit())) {
      if (record.split == data::Split::train)
        story.steps.push_back(std::move(record));
      else
        story.test = std::move(record);
    }
    if (story.test.variants.empty()) throw ValueError(fmt::format("report: {} has no evaluation yet", folder));
    for (const DType dtype : {DType::f64, DType::f32}) {
      const permute::VerifyOptions wanted{.dtype = dtype};
      for (permute::VerifyResult& result : permute::run_catalogue(wanted, [&](const auto&) { go_on(); }))
        story.identities.push_back(std::move(result));
    }
    return report::run_report(story, trainer).html();
  });
}

using Lines = std::vector<std::tuple<std::string, std::vector<double>, std::vector<double>, bool>>;

/// The chart as an SVG file.
std::string chart_of(const std::string& title, const std::string& x_label, const std::string& y_label,
                     const Lines& lines, bool log_y) {
  report::Chart chart{.title = title, .x_label = x_label, .y_label = y_label, .series = {}, .log_y = log_y};
  for (const auto& [name, x, y, dots] : lines) chart.series.push_back({.name = name, .x = x, .y = y, .dots = dots});
  return report::picture(chart);
}

nb::bytes heat_map(const Tensor& matrix) {
  const Bytes png = data::encode_png(report::heat_map(matrix.to(Device::cpu())));
  return nb::bytes(png.data(), png.size());
}

attacks::AttackRequest request_from(const nlohmann::json& given) {
  attacks::AttackRequest r;
  const auto take = [&](const char* key, auto& value) {
    if (const auto found = given.find(key); found != given.end()) found->get_to(value);
  };
  take("name", r.name);
  take("model", r.model);
  take("scheme", r.scheme);
  take("base", r.base);
  take("keys", r.keys);
  take("defences", r.defences);
  take("data", r.data);
  take("data_dir", r.data_dir);
  take("noise", r.noise);
  take("delta", r.delta);
  take("tokens", r.tokens);
  take("layer", r.layer);
  take("size", r.size);
  take("pictures", r.pictures);
  take("learned", r.learned);
  take("steps", r.effort.steps);
  take("pretraining", r.effort.pretraining);
  take("rounds", r.effort.rounds);
  return r;
}

/// JSON: cells, matrix, markdown, html, described (of the first cell's attack).
std::string attack(const std::string& given, std::uint64_t seed) {
  const attacks::AttackRequest request = request_from(nlohmann::json::parse(given));
  return stoppable([&](StopFlag stop) {
    const auto go_on = [stop] {
      if (stop != nullptr && stop->load()) throw Interrupted("attack: interrupted");
    };
    const InterruptScope scope(go_on);
    const std::vector<attacks::Cell> cells =
        attacks::run_request(request, seed, stop, [&](double, const std::string&) { go_on(); });
    nlohmann::ordered_json json = {{"cells", nlohmann::ordered_json::array()}};
    std::string text;
    for (const attacks::Cell& cell : cells) {
      json["cells"].push_back(to_json(cell));
      text += attacks::text_of(cell) + "\n";
    }
    if (cells.size() > 1) text += attacks::matrix_of(cells) + "\n";
    json["text"] = text + attacks::not_encryption;
    json["markdown"] = attacks::markdown_of(cells);
    json["html"] = attacks::page_of(cells).html();
    return json.dump();
  });
}

/// JSON: attacks, schemes, defences.
std::string attack_lists() {
  nlohmann::ordered_json json;
  for (const attacks::Attack& a : attacks::attacks())
    json["attacks"].push_back({{"name", a.name},
                               {"id", a.id},
                               {"sees", a.sees},
                               {"recovers", a.recovers},
                               {"cost", a.cost},
                               {"source", a.source},
                               {"learns", a.learns},
                               {"pictures", a.pictures},
                               {"texts", a.texts}});
  for (const permute::SchemeInfo& s : permute::schemes())
    json["schemes"].push_back({{"name", s.name}, {"what", s.what}});
  for (const attacks::DefenceInfo& d : attacks::defences())
    json["defences"].push_back({{"name", d.name}, {"what", d.what}, {"strength", d.strength}, {"usual", d.usual}});
  return json.dump();
}

} // namespace

void bind_reports(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("report", "Pages, charts, pictures and attacks.");
  m.def("runs_page", &runs_page, "runs"_a, "data"_a, "data_dir"_a, "key"_a, "samples"_a, "seed"_a,
        "The page that compares runs, and its notes.");
  m.def("main_page", &main_page, "folder"_a, "machine"_a, "The page of the main job, of a run with a plain variant.");
  m.def("chart", &chart_of, "title"_a, "x_label"_a, "y_label"_a, "lines"_a, "log_y"_a,
        "A line chart; lines are (name, x, y, dots).");
  m.def("heat_map", &heat_map, "matrix"_a, "A matrix [rows, columns] as a PNG, dark for its least entry.");
  m.def("attack", &attack, "request"_a, "seed"_a, "Runs attacks: JSON in and out.");
  m.def("attack_lists", &attack_lists, "Attacks, schemes and defences, as JSON.");
}

} // namespace eg::python
