// equigrad train: which model, its options, its job.

#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/train_job.h"

#include "core/base/bytes.h"
#include "optim/optimizer.h"
#include "training/checkpoint.h"
#include "training/run_lock.h"

#include <fmt/format.h>

#include <memory>

namespace eg::cli {

namespace {

bool is_free(const std::string& folder) { return !training::holds_run(folder) && !training::run_is_locked(folder); }

} // namespace

std::string run_folder_for(const std::string& model, const training::RunOptions& options) {
  if (!options.out.empty()) return options.out;
  const std::string first = "out/" + model;
  if (options.overwrite) return first;
  std::string folder = first;
  for (int i = 2; !is_free(folder); ++i) folder = fmt::format("{}-{}", first, i);
  return folder;
}

void in_run_folder(const std::string& model, training::RunOptions& options, FunctionRef<void()> open) {
  const bool asked = !options.out.empty() || options.overwrite;
  for (;;) {
    options.out = run_folder_for(model, options);
    try {
      return open();
    } catch (const Interrupted&) {
      throw;
    } catch (const Error&) {
      if (asked || is_free(options.out)) throw;
      options.out.clear();
    }
  }
}

void add_files(const TrainRequest& request, const std::vector<std::string>& read, const training::RunOptions& options) {
  CommandFiles& files = *request.common.files;
  files.reads_sets_of(options.data_dir);
  for (const std::string& path : read) files.reads(path);
  const std::string resumed = request.given.value("resume", "");
  if (resumed.empty() || request.given.contains("out")) files.reads(resumed);
  if (!resumed.empty()) files.goes_on_in(options.out);
  for (const std::string& own : training::files_of_run(options.out)) files.makes(own);
  files.check();
}

void refuse_idle_flags(const nlohmann::json& given, const std::function<std::string(const std::string&)>& reason) {
  for (const auto& [key, value] : given.items()) {
    if (value == false) continue; // --twin=false asks for nothing
    const std::string why = reason(key);
    if (!why.empty()) throw UsageError(fmt::format("{} has no effect: {}", flag_of(key), why));
  }
}

std::string idle_reason(const TrainRequest& request, const std::string& key, const training::RunOptions& o) {
  const bool in_place = request.given.contains("resume") && !request.given.contains("out");
  if (key == "eps" && !optim::rule_traits(o.optimizer).eps)
    return fmt::format("{} has no epsilon; adam, adamw, rmsprop and muon have", o.optimizer);
  if (key == "decay_on" && o.weight_decay == 0.0) return "there is no weight decay (--weight-decay)";
  if (key == "final_fraction" && !optim::has_final_fraction(o.schedule))
    return fmt::format("a {} schedule {}", name_of(o.schedule),
                       o.schedule == optim::Schedule::Kind::step ? "falls by drops (--drop-factor)" : "does not fall");
  if ((key == "drop_every" || key == "drop_factor") && o.schedule != optim::Schedule::Kind::step)
    return fmt::format("a {} schedule has no drops; a step schedule has", name_of(o.schedule));
  if (key == "overwrite" && in_place) return "--resume goes on in the run's own folder";
  return {};
}

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
