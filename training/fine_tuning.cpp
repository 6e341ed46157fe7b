#include "training/fine_tuning.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/words.h"
#include "nn/hub/llama2c.h"
#include "training/option.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace eg::training {
namespace {

bool is_llama2c(const std::string& path) { return path.ends_with(".bin") && file_exists(path); }

/// Whether a path is a folder or lies below it, links followed.
bool lies_in(const std::string& path, const std::string& folder) {
  std::error_code missing;
  const std::filesystem::path root = std::filesystem::weakly_canonical(folder, missing);
  for (std::filesystem::path at = std::filesystem::weakly_canonical(path, missing); !at.empty();
       at = at.parent_path()) {
    if (at == root) return true;
    if (at == at.parent_path()) break;
  }
  return false;
}

void require_family(const nlohmann::json& config, const std::string& path, std::string_view family) {
  const std::string found = config.is_object() && config.contains("model_type") && config["model_type"].is_string()
                                ? config["model_type"].get<std::string>()
                                : "";
  if (found == family) return;
  const std::string what =
      found.empty() ? "no model that names its model_type" : fmt::format("a model of type '{}'", found);
  throw ValueError(fmt::format("train: {} holds {}; `train {}` goes on from '{}'", path, what, family, family));
}

/// Whether a pattern means a parameter: by its own name, or by all the names that files give to its parts.
bool means(const std::string& pattern, const std::string& parameter, std::span<const hub::Binding> bindings) {
  if (glob_match(pattern, parameter)) return true;
  std::size_t parts = 0, fitting = 0;
  std::string outside;
  for (const hub::Binding& b : bindings) {
    if (b.parameter != parameter) continue;
    ++parts;
    if (glob_match(pattern, b.file))
      ++fitting;
    else
      outside = b.file;
  }
  if (fitting > 0 && fitting < parts)
    throw ValueError(fmt::format("train: freeze '{}' fits only a part of {}: not {}", pattern, parameter, outside));
  return fitting > 0;
}

} // namespace

const OptionTable<FineTuning>& option_table(const FineTuning&) {
  static const OptionTable<FineTuning> table = [] {
    using F = FineTuning;
    OptionTable<F> t;
    t.add("from", &F::from,
          "Model folder or earlier run to begin from; its sizes and, unless one is named, its tokenizer count. A head "
          "for other classes begins with random weights")
        .names(OptionPath::start, OnResume::same_content);
    t.add("fresh", &F::fresh,
          "Parameters that begin with random weights nevertheless: patterns of names, separated by commas")
        .must(
            [](const F& o) { return unless(o.fresh.empty() || o.begins(), "needs a model to begin from: give from"); });
    t.add("freeze", &F::freeze, "Parameters that stay as they are: patterns of names, \"blocks.0.*,*embedding*\"");
    return t;
  }();
  return table;
}

void check(const FineTuning& o, const std::string& out) {
  need(!o.begins() || out.empty() || !(lies_in(o.from, out) || lies_in(hub::model_folder_of_run(o.from), out)), o,
       o.from, "lies in the run folder, which the run writes over: give another out");
  option_table(o).check(o);
}

std::string start_folder(const FineTuning& o) {
  std::string folder = hub::model_folder_of_run(o.from);
  if (!folder_exists(folder) && !is_llama2c(folder))
    throw FileError(folder + ": no such model folder, run or llama2.c checkpoint (.bin)");
  return folder;
}

void require_family(const FineTuning& o, std::string_view family) {
  const std::string folder = start_folder(o);
  if (is_llama2c(folder)) return require_family({{"model_type", "llama"}}, folder, family);
  require_family(hub::read_config(folder), folder, family);
}

std::unique_ptr<hub::Model> open_start(const FineTuning& o, std::string_view family, hub::LoadModelOptions load) {
  const std::string folder = start_folder(o);
  if (is_llama2c(folder)) {
    require_family({{"model_type", "llama"}}, folder, family);
    if (!o.fresh.empty()) throw ValueError(fmt::format("train: fresh is for model folders, not for {}", folder));
    return hub::load_llama2c(folder);
  }
  load.fresh_head = true;
  load.fresh = words_of_list(o.fresh);
  load.adapt = [&, adapt = std::move(load.adapt)](nlohmann::json& config) {
    require_family(config, folder, family);
    if (adapt) adapt(config);
  };
  return hub::load_model(folder, load).model;
}

std::int64_t positions_of_start(const FineTuning& o) {
  const std::string folder = start_folder(o);
  if (is_llama2c(folder)) return hub::llama2c_config(folder).value("max_position_embeddings", std::int64_t{0});
  const nlohmann::json config = hub::read_config(folder);
  for (const char* key : {"max_position_embeddings", "n_positions"})
    if (config.contains(key) && config[key].is_number_integer()) return config[key];
  return 0;
}

void require_same_model(const nlohmann::json& state, const std::string& checkpoint, const nlohmann::json& config) {
  if (!state.contains("model") || state["model"] == config) return;
  std::string different;
  for (const auto& [key, value] : config.items())
    if (!state["model"].contains(key) || state["model"][key] != value)
      different += (different.empty() ? "" : ", ") + key;
  throw ValueError(fmt::format("train: {} was made with another model: {}", checkpoint,
                               different.empty() ? "its config has more fields" : different + " differ"));
}

std::vector<std::string> trained_parameters(const nn::Module& module, std::span<const hub::Binding> bindings,
                                            const FineTuning& o) {
  const std::vector<nn::Parameter> all = module.named_parameters();
  const std::vector<std::string> patterns = words_of_list(o.freeze);
  std::vector<bool> frozen(all.size(), false);
  for (const std::string& pattern : patterns) {
    bool fits = false;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (means(pattern, all[i].name, bindings)) frozen[i] = fits = true;
    if (fits) continue;
    std::vector<std::string> known;
    for (const nn::Parameter& p : all) known.push_back(p.name);
    const std::string hint = did_you_mean(pattern, known);
    throw ValueError(fmt::format("train: freeze '{}' fits no parameter{}", pattern,
                                 hint.empty() ? fmt::format("; the first is {}", known.front()) : hint));
  }
  std::vector<std::string> trained;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!frozen[i]) trained.push_back(all[i].name);
  if (trained.empty()) throw ValueError(fmt::format("train: freeze '{}' leaves nothing to learn", o.freeze));
  return trained;
}

} // namespace eg::training
