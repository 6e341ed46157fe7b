// equigrad symmetries: which permutations a model commutes with.

#include "apps/cli/model_files.h"
#include "apps/cli/model_symmetries.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/verb.h"
#include "permute/symmetries_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

namespace eg::cli {
namespace {

struct SymmetriesOptions {
  std::string model, config;
  bool axes = false, no_certify = false;
};

/// "[0:64]" where a run of the places moves.
std::string part_of(const permute::AxisUse& use) {
  if (use.whole || use.places.empty()) return {};
  const std::int64_t begin = use.places.front(), end = use.places.back() + 1;
  return end - begin == static_cast<std::int64_t>(use.places.size()) ? fmt::format("[{}:{}]", begin, end) : "[..]";
}

std::string listed(const std::vector<permute::AxisUse>& axes) {
  constexpr std::size_t most = 3;
  std::string text;
  for (std::size_t i = 0; i < axes.size() && i < most; ++i)
    text += fmt::format("{}{}{}{}", i == 0 ? "" : ", ", axes[i].tensor,
                        axes[i].axis < 0 ? ":values" : fmt::format(":{}", axes[i].axis), part_of(axes[i]));
  return axes.size() > most ? fmt::format("{} and {} more", text, axes.size() - most) : text;
}

void print(const OutlinedModel& outlined, bool every_axis) {
  const permute::ModelSymmetries& s = outlined.symmetries;
  LongOutput out;
  out.add(fmt::format("{} ({})\n\n", outlined.model->architecture(), outlined.model->family()));
  out.add(fmt::format("{:<52} {:<16} {:>12}  {}\n", "group", "elements", "log2", "axes"));
  for (const permute::SymmetryGroup& g : s.groups()) {
    if (g.kind == permute::GroupKind::trivial) continue;
    out.add(fmt::format("{:<52} {:<16} {:>12.1f}  {}{}\n", g.name, permute::described(g), g.log2_count,
                        every_axis ? "" : listed(g.axes), g.is_secret() ? "" : "  (data: in no key)"));
    if (every_axis)
      for (const permute::AxisUse& use : g.axes) out.add(fmt::format("    {}\n", permute::json_of(use).dump()));
  }
  bool first = true;
  for (const permute::SymmetryGroup& g : s.groups()) {
    if (g.kind != permute::GroupKind::trivial) continue;
    if (std::exchange(first, false)) out.add("\nfixed, and by what:\n");
    out.add(fmt::format("{:<52} {}\n", g.name, g.because));
  }
  out.add(
      fmt::format("\nkey space: {:.1f} bits. This counts keys; it is no measure of security: with public weights, or "
                  "one pair of\nplain and permuted data, a permutation is found at once (docs/theory.md).\n",
                  s.log2_count()));
  out.add(line_of(outlined.certificate));
  out.finish();
}

} // namespace

Job declare_symmetries(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<SymmetriesOptions>();
  auto* model = common.files->input(app.add_option("--model", o->model, "Model folder (config.json and its weights)"))
                    ->type_name("FOLDER");
  common.files->input(app.add_option("--config", o->config, "A config.json alone: the model need not exist"))
      ->type_name("FILE")
      ->excludes(model);
  app.add_flag("--axes", o->axes, "List every axis of every group");
  declare_certify(app, o->no_certify);
  return [o, &common]() -> int {
    if (o->model.empty() == o->config.empty()) throw UsageError("symmetries: give --model FOLDER or --config FILE");
    const OutlinedModel outlined =
        o->model.empty() ? outline_config(o->config, !o->no_certify) : outline_folder(o->model, !o->no_certify);
    if (common.talks()) print(outlined, o->axes);
    nlohmann::json result{{"architecture", outlined.model->architecture()},
                          {"groups", nlohmann::json::array()},
                          {"log2_key_space", outlined.symmetries.log2_count()},
                          {"certificate", json_of(outlined.certificate)}};
    for (const permute::SymmetryGroup& g : outlined.symmetries.groups())
      result["groups"].push_back(permute::json_of(g));
    write_json(common, result);
    return done;
  };
}

} // namespace eg::cli
