#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/train_flags.h"
#include "cli/verb.h"

#include "data/bytes.h"
#include "data/json.h"
#include "permute/checkpoint.h"
#include "permute/run_lock.h"
#include "permute/training.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>

namespace eg::cli {
namespace {

using permute::TrainOptions;
using permute::TrainRecord;
using permute::TrainResult;

std::string values_text(const TrainRecord& record) {
  std::string text;
  for (const permute::VariantValues& v : record.variants) {
    text +=
        fmt::format("  {}loss {:.4f} accuracy {:.2f} %",
                    record.variants.size() > 1 ? fmt::format("[{}] ", name_of(v.mode)) : "", v.loss, 100 * v.accuracy);
    if (!std::isnan(v.drift)) text += fmt::format(" drift {:.1e}", v.drift);
  }
  return text;
}

/// Of every variant the loss, the drift that was measured last and the accuracy; the main variant's stay longest.
std::vector<ProgressField> progress_fields(const TrainRecord& record, std::int64_t total,
                                           const std::vector<double>& drift) {
  std::vector<ProgressField> fields = {{fmt::format("step {}/{}", record.step, total), 1}};
  for (std::size_t i = 0; i < record.variants.size(); ++i) {
    const permute::VariantValues& v = record.variants[i];
    const bool main = i + 1 == record.variants.size();
    const std::string name = record.variants.size() > 1 ? fmt::format("[{}] ", name_of(v.mode)) : "";
    fields.push_back({fmt::format("{}loss {:.4f}", name, v.loss), main ? 3 : 5});
    if (!std::isnan(drift[i])) fields.push_back({fmt::format("{}drift {:.1e}", name, drift[i]), main ? 4 : 6});
    fields.push_back({fmt::format("{}accuracy {:.2f} %", name, 100 * v.accuracy), main ? 7 : 8});
  }
  fields.push_back({fmt::format("{:.0f} images/s", record.images_per_s), 8});
  return fields;
}

permute::TrainCallbacks callbacks(Progress& progress, std::int64_t total, bool talks) {
  permute::TrainCallbacks told;
  told.step = [&progress, total, drift = std::vector<double>()](const TrainRecord& r) mutable {
    drift.resize(r.variants.size(), permute::not_measured);
    for (std::size_t i = 0; i < drift.size(); ++i)
      if (!std::isnan(r.variants[i].drift)) drift[i] = r.variants[i].drift;
    progress.show(static_cast<double>(r.step), static_cast<double>(total), progress_fields(r, total, drift));
  };
  told.test = [&progress, talks](const TrainRecord& r) {
    progress.clear();
    if (talks) say(fmt::format("test   step {:>6}{}\n", r.step, values_text(r)));
  };
  told.checkpoint = [&progress, talks](const std::string& folder) {
    progress.clear();
    if (talks) say(fmt::format("saved  {}\n", folder));
  };
  return told;
}

nlohmann::json result_json(const TrainResult& result) {
  const permute::VariantValues& main = result.test.back();
  nlohmann::json json = {{"steps", result.steps},
                         {"loss", main.loss},
                         {"accuracy", main.accuracy},
                         {"seconds", result.seconds},
                         {"images_per_s", result.images_per_s},
                         {"drift", std::isnan(main.drift) ? nlohmann::json() : nlohmann::json(main.drift)},
                         {"variants", nlohmann::json::array()}};
  for (std::size_t v = 0; v < result.test.size(); ++v)
    json["variants"].push_back(
        {{"permute", name_of(result.test[v].mode)},
         {"train_loss", v < result.train.size() ? nlohmann::json(result.train[v].loss) : nlohmann::json()},
         {"loss", result.test[v].loss},
         {"accuracy", result.test[v].accuracy}});
  return json;
}

/// out/vit, or the first of out/vit-2, out/vit-3, ... that holds no run and in which none is going on, so that training
/// twice keeps both.
std::string free_run_folder() {
  std::string folder = "out/vit";
  for (int i = 2; permute::holds_run(folder) || permute::run_is_locked(folder); ++i)
    folder = fmt::format("out/vit-{}", i);
  return folder;
}

int train(const TrainOptions& options, const CommonOptions& common) {
  survive_broken_pipes();
  const std::atomic<bool>& stop = stop_flag();
  permute::VitTrainer trainer(options, &stop);
  for (const std::string& note : trainer.notes()) std::fputs(fmt::format("equigrad: {}\n", note).c_str(), stderr);
  if (common.talks())
    say(fmt::format("{}: {} training and {} test images; ViT with {} parameters; {} steps of {} images\n",
                    trainer.train_data().name(), trainer.train_data().size(), trainer.test_data().size(),
                    trainer.model(0).parameter_count(), trainer.total_steps(), trainer.options().batch));
  const bool complete = trainer.step() == trainer.total_steps();
  Progress progress(!common.quiet);
  try {
    const TrainResult result = trainer.run(callbacks(progress, trainer.total_steps(), common.talks()), &stop);
    progress.clear();
    if (common.talks())
      say(fmt::format("{}, run folder {}\n",
                      complete
                          ? "tested; training was already complete"
                          : fmt::format("done in {}: {:.0f} images/s", clock_time(result.seconds), result.images_per_s),
                      trainer.options().out));
    write_json(common, result_json(result));
  } catch (const Interrupted& e) {
    throw Interrupted(fmt::format("{}; go on with: equigrad train vit --resume {}", e.what(),
                                  data::shell_word(trainer.options().out)));
  }
  return done;
}

} // namespace

Job declare_train(CLI::App& app, const CommonOptions& common) {
  auto model = std::make_shared<std::string>();
  auto config = std::make_shared<std::string>();
  auto flags = std::make_shared<TrainFlags>(app);
  app.add_option("model", *model, "What to train: vit")->required()->check(one_of({"vit"}))->type_name("MODEL");
  app.add_option("--config", *config, "JSON file with options named as the flags ('_' for '-'); flags override it")
      ->type_name("FILE");
  return [model, config, flags, &common, &app]() -> int {
    nlohmann::json given = flags->given();
    if (app.count("--seed") > 0) given["seed"] = common.seed;
    TrainOptions options;
    if (given.contains("resume")) options = permute::options_of_run(given["resume"].get<std::string>());
    if (!config->empty()) permute::apply_options(options, data::read_json(*config), *config);
    flags->apply(options);
    if (app.count("--seed") > 0) options.seed = common.seed;
    refuse_idle_flags(given, options);
    if (options.out.empty()) options.out = options.overwrite ? "out/vit" : free_run_folder();
    require_apart({common.json},
                  {*config, options.key, data::join_path(options.out, "config.json"),
                   data::join_path(options.out, "metrics.jsonl"), data::join_path(options.out, "model.safetensors")});
    return train(options, common);
  };
}

} // namespace eg::cli
