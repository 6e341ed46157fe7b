#pragma once
// Makes the flags of `train MODEL` from the model's options in their JSON form, so that flags, config files and saved
// configs agree.

#include "apps/cli/shell/verb.h"
#include "core/base/error.h"
#include "training/option.h"
#include "training/options.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace eg::cli {

/// Models that can be trained.
const std::vector<std::string>& trainable_models();
/// The model that a command line of `train` names, "" when there is none.
std::string model_in(const std::vector<std::string>& words);
/// "train vit": what to ask --help with.
std::string train_topic(const std::vector<std::string>& words);

/// "--head-dim" of "head_dim".
std::string flag_of(std::string key);

class TrainFlags {
public:
  /// Declares --name for every option of the model, with its default and meaning. Those of other models are declared
  /// without being shown, so that they can be refused with a word; with "" for the model all are. `defaults`: every
  /// option of the model, where the verb begins with others than `train`.
  TrainFlags(CLI::App& app, const CommonOptions& common, const std::string& model,
             const nlohmann::ordered_json& defaults = {});
  /// What was given on the command line, typed as the defaults are. Throws UsageError that names the flag, also for a
  /// flag of another model.
  nlohmann::json given() const;
  /// Has a flag that was given count as given with this value; with none, as not given.
  void settle(const std::string& key, std::optional<std::string> value) { settled_[key] = std::move(value); }
  /// Throws ValueError, beginning with `source`, for a key of a config that other models have and this one has not, or
  /// that is an option of the verb and not of the model.
  void refuse_foreign_keys(const nlohmann::json& config, const std::string& source) const;
  /// Overrides `options` with what was given, and checks them. Throws UsageError that names the flag.
  template <class Options> void apply(Options& options) const {
    const nlohmann::json found = given();
    const bool steps = found.contains(training::option_key(&training::RunOptions::steps));
    const bool epochs = found.contains(training::option_key(&training::RunOptions::epochs));
    // The one that is given replaces the other one of a config or of the resumed run.
    if (steps && !epochs) options.epochs = 0;
    if (epochs && !steps) options.steps = 0;
    for (const auto& [key, value] : found.items())
      as_usage(flag_of(key), [&, name = key, v = value] { apply_options(options, {{name, v}}, flag_of(name)); });
    as_usage("", [&] { check(options); });
  }

private:
  void declare(const training::OptionInfo& info, const nlohmann::ordered_json& value, bool shown);
  /// Runs `f`; a ValueError becomes a UsageError, which says a flag's name once.
  static void as_usage(const std::string& flag, const std::function<void()>& f);

  CLI::App& app_;
  CommandFiles& files_;
  std::string model_;
  nlohmann::ordered_json defaults_;
  std::map<std::string, std::string> values_; ///< by key; empty where a flag is a switch
  std::map<std::string, std::optional<std::string>> settled_;
  std::map<std::string, std::string> foreign_; ///< keys of other models alone, and whose they are
};

} // namespace eg::cli
