// equigrad train vit and train deit: vision transformers, plain and permuted.

#include "apps/cli/model_files.h"
#include "apps/cli/shell/available_data.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/train_job.h"
#include "apps/cli/train_lines.h"

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "training/dropout_note.h"
#include "training/vit_trainer.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

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
    if (!std::isnan(v.ema_loss))
      text += fmt::format("  average: loss {:.4f} accuracy {:.2f} %", v.ema_loss, 100 * v.ema_accuracy);
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
  fields.push_back(memory_field());
  return fields;
}

permute::TrainCallbacks callbacks(Progress& progress, const permute::VitTrainer& trainer, bool talks,
                                  const SplitJob* split) {
  const std::int64_t total = trainer.total_steps();
  permute::TrainCallbacks told;
  told.step = [&progress, total, split, drift = std::vector<double>()](const TrainRecord& r) mutable {
    drift.resize(r.variants.size(), permute::not_measured);
    for (std::size_t i = 0; i < drift.size(); ++i)
      if (!std::isnan(r.variants[i].drift)) drift[i] = r.variants[i].drift;
    std::vector<ProgressField> fields = progress_fields(r, total, drift);
    if (split != nullptr) fields.push_back(split->progress());
    progress.show(static_cast<double>(r.step), static_cast<double>(total), fields);
  };
  told.test = [&progress, talks](const TrainRecord& r) {
    progress.clear();
    if (talks) say(fmt::format("test   step {:>6}{}\n", r.step, values_text(r)));
  };
  told.skipped = [&progress, &trainer, talks](const std::string& why) {
    progress.clear();
    if (talks) say(skipped_line(trainer.step(), why));
  };
  told.checkpoint = [&progress, talks](const std::string& folder) {
    progress.clear();
    if (talks) say(fmt::format("saved  {}\n", folder));
  };
  return told;
}

/// What the average of the weights reached, where there is one.
void add_average(nlohmann::json& json, const permute::VariantValues& v) {
  if (std::isnan(v.ema_loss)) return;
  json["ema_loss"] = v.ema_loss;
  json["ema_accuracy"] = v.ema_accuracy;
}

nlohmann::json result_json(const TrainResult& result, const std::string& out) {
  const permute::VariantValues& main = result.test.back();
  nlohmann::json json = {{"steps", result.steps},
                         {"loss", main.loss},
                         {"accuracy", main.accuracy},
                         {"seconds", result.seconds},
                         {"images_per_s", result.images_per_s},
                         {"drift", std::isnan(main.drift) ? nlohmann::json() : nlohmann::json(main.drift)},
                         {"variants", nlohmann::json::array()}};
  add_average(json, main);
  for (std::size_t v = 0; v < result.test.size(); ++v) {
    json["variants"].push_back(
        {{"permute", name_of(result.test[v].mode)},
         {"train_loss", v < result.train.size() ? nlohmann::json(result.train[v].loss) : nlohmann::json()},
         {"loss", result.test[v].loss},
         {"accuracy", result.test[v].accuracy}});
    add_average(json["variants"].back(), result.test[v]);
  }
  add_run_fields(json, result.skipped, result.best, out);
  return json;
}

/// What the encoder gives to who holds it and not the key.
void add_without_key(nlohmann::json& json, const permute::VitTrainer& trainer, bool talks) {
  json["without_key"] = nullptr;
  if (!permute::permutes_columns(trainer.mode(0))) return;
  const permute::VariantValues v = trainer.test_without_key(&stop_flag());
  json["without_key"] = {{"loss", v.loss}, {"accuracy", v.accuracy}};
  if (talks) say(fmt::format("without the key: loss {:.4f} accuracy {:.2f} %\n", v.loss, 100 * v.accuracy));
}

/// Files that a run reads, and that its results must spare.
std::vector<std::string> files_read(const TrainOptions& options, const std::string& model, const SplitJob* split) {
  std::vector<std::string> files = {data_path(model, options.data), options.key, options.start.from, options.teacher};
  if (split != nullptr) files.push_back(split->training.next_key);
  return files;
}

int train(TrainOptions& options, const TrainRequest& request, const SplitJob* split) {
  const CommonOptions& common = request.common;
  const std::atomic<bool>& stop = stop_flag();
  std::optional<permute::VitTrainer> made;
  reading(request, sources_of(options), [&] {
    if (options.start.begins() && !options.from_permuted) warn_of_key(model_folder(options.start.from));
    if (!options.teacher.empty()) warn_of_key(model_folder(options.teacher));
    in_run_folder(split != nullptr ? "edge-" + request.model : request.model, options, [&] {
      add_files(request, files_read(options, request.model, split), options);
      made.emplace(options, &stop, split != nullptr ? split->training : permute::SplitTraining());
    });
  });
  permute::VitTrainer& trainer = *made;
  for (const std::string& note : trainer.notes()) std::fputs(fmt::format("equigrad: {}\n", note).c_str(), stderr);
  if (common.talks())
    say(fmt::format("{}: {} training and {} test images; {} with {} parameters{}; {} steps of {} images\n",
                    trainer.train_data().name(), trainer.train_data().size(), trainer.test_data().size(),
                    request.model == "deit" ? "DeiT" : "ViT", trainer.model(0).parameter_count(), blocks_words(split),
                    trainer.total_steps(), trainer.options().batch));
  say_note(common, permute::dropout_note(permute::options_json(trainer.options())));
  const bool complete = trainer.step() == trainer.total_steps();
  Progress progress(!common.quiet);
  with_way_on(request, split, trainer.options().out, [&] {
    const TrainResult result = trainer.run(callbacks(progress, trainer, common.talks(), split), &stop);
    progress.clear();
    if (common.talks())
      say(fmt::format("{}, run folder {}{}\n",
                      complete
                          ? "tested; training was already complete"
                          : fmt::format("done in {}: {:.0f} images/s", clock_time(result.seconds), result.images_per_s),
                      trainer.options().out, best_words(result.best, result.steps, trainer.options().out)));
    nlohmann::json json = result_json(result, trainer.options().out);
    if (split != nullptr) {
      add_without_key(json, trainer, common.talks());
      split->result(json);
    }
    write_json(common, json);
  });
  return done;
}

bool has_image_size_of_its_own(const std::string& data) {
  for (const char* name :
       {"cifar10", "cifar10-jpeg", "cifar10-records", "cifar100", "cifar100-coarse", "mnist", "fashion-mnist"})
    if (data == name) return true;
  return false;
}

bool is_generated(const std::string& data) { return data == "shapes" || data == "faces"; }

/// Why a flag that was given would change nothing; "" when it does its work.
std::string idle_vit_flag(const std::string& key, const TrainOptions& o) {
  std::vector<permute::TrainMode> modes = o.variants;
  if (modes.empty()) modes = {o.permute};
  const bool columns = std::any_of(modes.begin(), modes.end(), permute::permutes_columns);
  const bool compared = o.twin || o.variants.size() > 1;
  if (key == "size" && has_image_size_of_its_own(o.data))
    return fmt::format("the images of {} have a size of their own; it is for image folders and generated images",
                       o.data);
  if (key == "randaugment_ops" && o.randaugment == 0.0) return "there is no RandAugment (--randaugment)";
  if (key == "bad_images" && (has_image_size_of_its_own(o.data) || is_generated(o.data)))
    return "it is for image folders";
  if (key == "data_dir" && is_generated(o.data)) return fmt::format("{} are generated", o.data);
  if (key == "data_dir" && !has_image_size_of_its_own(o.data) && o.data != "celeba")
    return fmt::format("--data names the folder {}", o.data);
  if (key == "key_form" && !columns) return "no columns are permuted (--permute columns or both)";
  if ((key == "permute" || key == "twin") && !o.variants.empty()) return "the options of the run list its variants";
  const std::vector<std::string> sizes = {"patch",    "dim",      "layers",     "heads",   "head_dim", "mlp",
                                          "pre_norm", "norm_eps", "activation", "pooling", "position"};
  if (o.start.begins() && std::find(sizes.begin(), sizes.end(), key) != sizes.end())
    return fmt::format("the model of {} has its own", o.start.from);
  if (key == "drift_every" && !compared) return "there is no twin to drift from (--twin)";
  return {};
}

} // namespace

int train_vit(const TrainRequest& request, const SplitJob* split) {
  const TrainOptions defaults = request.model == "deit" ? permute::deit_defaults() : TrainOptions();
  TrainOptions options = options_for(
      request, defaults, [&](const std::string& folder) { return permute::options_of_run(folder, defaults); });
  refuse_idle_flags(request.given, [&](const std::string& key) {
    const std::string reason = idle_vit_flag(key, options);
    return reason.empty() ? idle_reason(request, key, options) : reason;
  });
  return train(options, request, split);
}

} // namespace eg::cli
