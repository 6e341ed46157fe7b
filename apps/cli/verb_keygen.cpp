#include "apps/cli/model_files.h"
#include "apps/cli/model_symmetries.h"
#include "apps/cli/shell/core_dumps.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/verb.h"

#include "permute/model_key.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>

namespace eg::cli {
namespace {

struct KeygenOptions {
  std::string out, model, config, groups = "all";
  bool no_certify = false;
};

/// A key for the groups of one model.
permute::SecretKey key_for_model(const KeygenOptions& o, nlohmann::json& json, std::string& lines) {
  const OutlinedModel outlined =
      o.model.empty() ? outline_config(o.config, !o.no_certify) : outline_folder(o.model, !o.no_certify);
  const std::set<std::string> groups = permute::choose_groups(outlined.symmetries, o.groups);
  double log2_count = 0.0;
  bool outside = false;
  for (const std::string& name : groups) {
    const permute::SymmetryGroup& g = *outlined.symmetries.find(name);
    log2_count += g.log2_count;
    outside = outside || g.moves_outside;
  }
  json["groups"] = groups;
  json["log2_keys"] = log2_count;
  json["architecture"] = outlined.model->architecture();
  json["certificate"] = json_of(outlined.certificate);
  lines =
      fmt::format("{} groups of {}, one of 2^{:.1f} keys (the key's 256 bits choose it)\n{}"
                  "This is obfuscation, not encryption: with public weights, or one pair of plain and permuted data, "
                  "the permutation is found\nwhatever the number of keys (row matching, sorted rows, vocabulary "
                  "matching: docs/theory.md).\n",
                  groups.size(), outlined.model->architecture(), log2_count,
                  outside ? "Some move inputs or outputs: equigrad permute --tensors moves those.\n" : "") +
      line_of(outlined.certificate);
  return permute::make_model_key(outlined.symmetries, groups, outlined.model->architecture());
}

} // namespace

Job declare_keygen(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<KeygenOptions>();
  common.files
      ->result(app.add_option("--out", o->out,
                              "Key file to write, for its owner alone; an existing file is never overwritten"))
      ->required()
      ->type_name("FILE");
  auto* model =
      common.files->input(app.add_option("--model", o->model, "Model folder that the key is for (equigrad permute)"))
          ->type_name("FOLDER");
  common.files->input(app.add_option("--config", o->config, "The same by its config.json"))
      ->type_name("FILE")
      ->excludes(model);
  app.add_option("--groups", o->groups,
                 "What the key moves, as equigrad symmetries names it: all; inner (what leaves inputs and outputs "
                 "alone); names and globs, separated by commas (default: all)")
      ->type_name("LIST");
  declare_certify(app, o->no_certify);
  return [o, &common, &app]() -> int {
    disable_core_dumps();
    if (app.count("--seed") > 0)
      throw UsageError("--seed has no effect on keygen: a secret key comes from the system's random source");
    const bool for_model = !o->model.empty() || !o->config.empty();
    if (!for_model && app.count("--groups") > 0) throw UsageError("keygen: --groups needs --model or --config");
    if (!o->model.empty()) o->model = model_folder(o->model);
    add_model(*common.files, o->model);
    common.files->check();
    nlohmann::json json;
    std::string lines;
    const permute::SecretKey key = for_model ? key_for_model(*o, json, lines) : permute::SecretKey::generate();
    key.save(o->out);
    if (common.talks()) say(fmt::format("{}: key {}\n{}", o->out, key.fingerprint(), lines));
    json["key"] = o->out;
    json["fingerprint"] = key.fingerprint();
    write_json(common, json);
    return done;
  };
}

} // namespace eg::cli
