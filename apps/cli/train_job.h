#pragma once
// Runs `train MODEL` with parsed flags, model by model.

#include "apps/cli/shell/core_dumps.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/train_config.h"
#include "apps/cli/train_flags.h"

#include "core/base/function_ref.h"
#include "core/base/json.h"
#include "training/options.h"
#include "training/trainer.h"
#include "training/vit_trainer.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace eg::cli {

/// What a person typed after `train MODEL`.
struct TrainRequest {
  std::string model;
  std::string config; ///< file, "" for none
  nlohmann::json given;
  const TrainFlags& flags;
  const CommonOptions& common;
  bool seed_given = false;

  /// The option that is this member was given on the command line.
  template <class T> bool gives(T training::RunOptions::*member) const {
    return given.contains(training::option_key(member));
  }
  /// The folder that --resume names, "" without it.
  std::string resumed() const { return given.value(training::option_key(&training::RunOptions::resume), ""); }
};

/// A run whose encoder is elsewhere, and what is said of the way there.
struct SplitJob {
  training::SplitTraining training;
  std::string command;                              ///< that trains so, up to --resume
  std::function<ProgressField()> progress;          ///< after each step
  std::function<void(nlohmann::json& json)> result; ///< adds to the result
};

/// Where the encoder's blocks are, after what is said of the model; "" when they are here.
std::string blocks_words(const SplitJob* split);

/// `split`: null when everything is here.
int train_vit(const TrainRequest& request, const SplitJob* split = nullptr);
int train_language(const TrainRequest& request);
int train_bert(const TrainRequest& request, const SplitJob* split = nullptr);
int train_difm(const TrainRequest& request);

/// The files and folders that a run reads, each with the option that names it: first the data, then what it begins
/// from.
using Sources = std::vector<std::pair<const char*, std::string>>;
template <class Options> Sources sources_of(const Options& o) {
  using training::OptionPath;
  Sources sources;
  for (const OptionPath path : {OptionPath::data, OptionPath::start, OptionPath::input})
    for (const training::Option<Options>& row : option_table(o).rows())
      if (row.path == path) sources.emplace_back(row.key, row.write(o).template get<std::string>());
  return sources;
}

/// Calls read(), which reads the sources. When a run is resumed and one of them is not where it was, the error says how
/// to name its new place; where an option of the config is wrong for them, the error names the config.
void reading(const TrainRequest& request, const Sources& sources, FunctionRef<void()> read);
/// Makes a trainer, which reads its data; says so on a terminal while it does.
std::unique_ptr<training::Trainer> opened(const TrainRequest& request, const std::string& data,
                                          FunctionRef<std::unique_ptr<training::Trainer>()> make);
/// What --json says of a finished run.
using ResultJson = std::function<nlohmann::json(const training::Result& result)>;
/// Trains to the end and says how it goes. `out`: the run folder; `model`: where the model will be, "" not to say it;
/// `split`: null when everything is here; `result_of`: empty for the fields that all models of text have.
int train_to_end(training::Trainer& trainer, const TrainRequest& request, const std::string& out,
                 const std::string& model, const SplitJob* split = nullptr, const ResultJson& result_of = {});
/// Adds "drift" and "variants", the values of every model.
void add_variants(nlohmann::json& json, const training::Result& result);

/// Runs `train`, whose run folder is `out`. Errors that end it early say how to resume from the last checkpoint: an
/// interruption always; a disk, or a cloud of `split`, that failed, when there is a checkpoint.
void with_resume_hint(const TrainRequest& request, const SplitJob* split, const std::string& out,
                      FunctionRef<void()> train);

/// Adds to the account of files what a run reads, what lies in the folder of a resumed run, and what the run writes to
/// its folder options.out. Throws FileError as CommandFiles::check() does.
void add_files(const TrainRequest& request, const std::vector<std::string>& read, const training::RunOptions& options);

/// Throws UsageError for the first flag that was given and for which idle(key) says why it would change nothing.
void refuse_idle_flags(const TrainRequest& request, FunctionRef<std::string(const std::string&)> idle);

/// The options of a request: those of the resumed run (read by `of_run`), or the defaults; the config's; the flags'.
/// Throws UsageError, also for a flag that would change nothing; ValueError, FileError.
template <class Options, class OfRun>
Options options_for(const TrainRequest& request, Options options, OfRun&& of_run) {
  if (request.gives(&training::RunOptions::resume)) options = of_run(request.resumed());
  if (!request.config.empty()) {
    const nlohmann::json config = read_json(request.config);
    request.flags.refuse_foreign_keys(config, request.config);
    apply_options(options, config, request.config);
  }
  naming_config(request.config, request.given, [&] { request.flags.apply(options); });
  refuse_idle_flags(request, [&](const std::string& key) { return option_table(options).idle(options, key); });
  if (request.gives(&training::RunOptions::warmup)) training::require_warmup_in_run(options);
  if (request.seed_given) options.seed = request.common.seed;
  if constexpr (requires { options.key; })
    if (!options.key.empty()) disable_core_dumps();
  return options;
}

} // namespace eg::cli
