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
#include "training/vit_trainer.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace eg::cli {
namespace {

using permute::TrainOptions;

nlohmann::json result_json(const training::Result& result, const std::string& out) {
  const training::Record& main = result.test;
  nlohmann::json json = {{"steps", result.steps},
                         {"loss", main.loss},
                         {"accuracy", main.accuracy},
                         {"seconds", result.seconds},
                         {"images_per_s", result.per_s}};
  if (!std::isnan(main.ema_loss)) json.update({{"ema_loss", main.ema_loss}, {"ema_accuracy", main.ema_accuracy}});
  add_variants(json, result);
  add_run_fields(json, result.skipped, result.best, out);
  return json;
}

/// Files that a run reads, and that its results must spare.
std::vector<std::string> files_read(const TrainOptions& options, const std::string& model, const SplitJob* split) {
  std::vector<std::string> files = {data_path(model, options.data), options.key, options.start.from, options.teacher};
  if (split != nullptr) files.push_back(split->training.next_key);
  return files;
}

int train(TrainOptions& options, const TrainRequest& request, const SplitJob* split) {
  std::unique_ptr<training::Trainer> trainer;
  reading(request, sources_of(options), [&] {
    if (options.start.begins() && !options.from_permuted) warn_of_key(model_folder(options.start.from));
    if (!options.teacher.empty()) warn_of_key(model_folder(options.teacher));
    in_run_folder(split != nullptr ? "edge-" + request.model : request.model, options, [&] {
      add_files(request, files_read(options, request.model, split), options);
      trainer = opened(request, options.data, [&] {
        return std::make_unique<permute::VitTrainer>(options, &stop_flag(),
                                                     split != nullptr ? split->training : permute::SplitTraining());
      });
    });
  });
  const auto& vit = dynamic_cast<const permute::VitTrainer&>(*trainer);
  const std::string out = vit.options().out;
  return train_to_end(*trainer, request, out, "", split,
                      [&](const training::Result& result) { return result_json(result, out); });
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
