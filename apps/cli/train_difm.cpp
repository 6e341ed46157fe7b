// equigrad train difm: factorization machines on tables.

#include "apps/cli/shell/available_data.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/train_job.h"

#include "core/base/bytes.h"
#include "training/difm_task.h"

#include <fmt/format.h>

namespace eg::cli {
namespace {

/// Why a flag would change nothing; "" when it does its work.
std::string idle_difm_flag(const std::string& key, const permute::DifmOptions& o) {
  if (key == "held_out" && !o.table.validation.empty()) return "--validation names the rows to test on";
  if (key == "data_dir" && o.data != "criteo") return fmt::format("--data names the file {}", o.data);
  if (key == "min_count" && o.table.buckets > 0) return "--buckets hashes every category";
  for (const char* own : {"dim", "heads", "head_dim", "hidden", "activation", "label", "positive", "dense",
                          "categorical", "scale", "min_count", "buckets"})
    if (key == own && o.start.begins()) return fmt::format("the run {} has its own", o.start.from);
  return {};
}

} // namespace

int train_difm(const TrainRequest& request) {
  permute::DifmOptions options = options_for(request, permute::DifmOptions(), permute::difm_options_of_run);
  refuse_idle_flags(request.given, [&](const std::string& key) {
    const std::string reason = idle_difm_flag(key, options);
    return reason.empty() ? idle_reason(request, key, options) : reason;
  });
  std::vector<std::string> read = {data_path(request.model, options.data), options.table.validation, options.key};
  if (options.start.begins()) read.push_back(options.start.from);
  std::unique_ptr<training::Trainer> trainer;
  reading(request, sources_of(options), [&] {
    in_run_folder(request.model, options, [&] {
      add_files(request, read, options);
      trainer = opened(request, options.data, [&] { return permute::difm_trainer(options, &stop_flag()); });
    });
  });
  return train_to_end(*trainer, request, options.out, join_path(options.out, "model.safetensors"));
}

} // namespace eg::cli
