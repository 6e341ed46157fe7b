// equigrad train vit and train deit: vision transformers, plain and permuted.

#include "apps/cli/model_files.h"
#include "apps/cli/named_data.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/train_job.h"
#include "apps/cli/train_lines.h"

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "training/new_run.h"
#include "training/vit_trainer.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace eg::cli {
namespace {

using training::VitOptions;

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
std::vector<std::string> files_read(const VitOptions& options, const std::string& model, const SplitJob* split) {
  std::vector<std::string> files = {data_path(model, options.data), options.key, options.start.from, options.teacher};
  if (split != nullptr) files.push_back(split->training.next_key);
  return files;
}

int train(VitOptions& options, const TrainRequest& request, const SplitJob* split) {
  std::unique_ptr<training::Trainer> trainer;
  reading(request, sources_of(options), [&] {
    if (options.start.begins() && !options.from_permuted) warn_of_key(model_folder(options.start.from));
    if (!options.teacher.empty()) warn_of_key(model_folder(options.teacher));
    training::in_run_folder(
        split != nullptr ? "edge-" + request.model : request.model, options, request.common.processes, [&] {
          add_files(request, files_read(options, request.model, split), options);
          trainer = opened(request, options.data, [&] {
            return std::make_unique<training::VitTrainer>(
                options, &stop_flag(), split != nullptr ? split->training : training::SplitTraining(),
                request.common.processes);
          });
        });
  });
  const auto& vit = dynamic_cast<const training::VitTrainer&>(*trainer);
  const std::string out = vit.options().out;
  return train_to_end(*trainer, request, out, "", split,
                      [&](const training::Result& result) { return result_json(result, out); });
}

} // namespace

int train_vit(const TrainRequest& request, const SplitJob* split) {
  const VitOptions defaults = request.model == "deit" ? training::deit_defaults() : VitOptions();
  VitOptions options = options_for(
      request, defaults, [&](const std::string& folder) { return training::options_of_run(folder, defaults); });
  return train(options, request, split);
}

} // namespace eg::cli
