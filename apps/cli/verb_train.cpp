// equigrad train: which model, its options, its job.

#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/train_job.h"

#include "distributed/communicator.h"
#include "training/checkpoint.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

namespace eg::cli {

void add_files(const TrainRequest& request, const std::vector<std::string>& read, const training::RunOptions& options) {
  CommandFiles& files = *request.common.files;
  files.reads_sets_of(options.data_dir);
  for (const std::string& path : read) files.reads(path);
  const std::string resumed = request.resumed();
  if (resumed.empty() || request.gives(&training::RunOptions::out)) files.reads(resumed);
  if (!resumed.empty()) files.goes_on_in(options.out);
  for (const std::string& own : training::files_of_run(options.out)) files.makes(own);
  files.check();
}

void refuse_idle_flags(const TrainRequest& request, FunctionRef<std::string(const std::string&)> idle) {
  using training::RunOptions;
  const bool in_place = request.gives(&RunOptions::resume) && !request.gives(&RunOptions::out);
  for (const auto& [key, value] : request.given.items()) {
    if (value == false) continue; // --twin=false asks for nothing
    std::string why = idle(key);
    if (in_place && key == training::option_key(&RunOptions::overwrite))
      why = "--resume goes on in the run's own folder";
    if (!why.empty()) throw UsageError(fmt::format("{} has no effect: {}", flag_of(key), why));
  }
}

namespace {

/// --resume auto: goes on from the run in --out where it has a checkpoint, and begins it otherwise, so that a job that
/// is started again is one command.
void settle_automatic_resume(TrainFlags& flags, const CommonOptions& common) {
  using training::RunOptions;
  const char* const resume = training::option_key(&RunOptions::resume);
  const char* const out = training::option_key(&RunOptions::out);
  const nlohmann::json given = flags.given();
  if (given.value(resume, "") != "auto") return;
  const std::string folder = given.value(out, "");
  if (folder.empty()) throw UsageError("--resume auto needs --out: the folder that the run is begun and gone on in");
  bool there = !training::checkpoint_steps(folder).empty();
  if (common.processes != nullptr) there = common.processes->decided(there);
  flags.settle(resume, there ? std::optional(folder) : std::nullopt);
  if (there) flags.settle(out, std::nullopt);
}

} // namespace

Job declare_train(CLI::App& app, const CommonOptions& common) {
  auto model = std::make_shared<std::string>();
  auto config = std::make_shared<std::string>();
  const std::string named = model_in(common.words);
  app.add_option("model", *model, fmt::format("What to train: {}", fmt::join(trainable_models(), ", ")))
      ->required()
      ->check(one_of(trainable_models()))
      ->type_name("MODEL");
  common.files
      ->input(app.add_option("--config", *config,
                             "JSON file with options named as the flags ('_' for '-'); flags override it"))
      ->type_name("FILE");
  auto flags = std::make_shared<TrainFlags>(app, common, named);
  if (named.empty()) app.footer("The options of each model: equigrad train MODEL --help");
  return [model, config, flags, &common, &app]() -> int {
    settle_automatic_resume(*flags, common);
    const TrainRequest request{.model = *model,
                               .config = *config,
                               .given = flags->given(),
                               .flags = *flags,
                               .common = common,
                               .seed_given = app.count("--seed") > 0};
    if (*model == "vit" || *model == "deit") return train_vit(request);
    if (*model == "difm") return train_difm(request);
    return *model == "bert" ? train_bert(request) : train_language(request);
  };
}

} // namespace eg::cli
