#pragma once
// The flags of `train`, made from the options' own JSON form, so that flags, config files and saved configs agree.

#include "permute/training.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include <map>
#include <string>

namespace eg::cli {

class TrainFlags {
public:
  /// Declares --name for every key of permute::options_json, with its default and meaning.
  explicit TrainFlags(CLI::App& app);
  /// What was given on the command line, typed as the defaults are. Throws UsageError that names the flag.
  nlohmann::json given() const;
  /// Overrides `options` with what was given, and checks them. Throws UsageError that names the flag.
  void apply(permute::TrainOptions& options) const;

private:
  CLI::App& app_;
  std::map<std::string, std::string> values_; ///< by key; empty where a flag is a switch
};

/// Throws UsageError for the first flag of `given` that would change nothing with these options, and says why.
void refuse_idle_flags(const nlohmann::json& given, const permute::TrainOptions& options);

} // namespace eg::cli
