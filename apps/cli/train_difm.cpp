// equigrad train difm: factorization machines on tables.

#include "apps/cli/named_data.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/train_job.h"

#include "core/base/bytes.h"
#include "training/language/difm_task.h"
#include "training/new_run.h"

#include <fmt/format.h>

namespace eg::cli {
int train_difm(const TrainRequest& request) {
  training::DifmOptions options = options_for(request, training::DifmOptions(), training::difm_options_of_run);
  std::vector<std::string> read = {data_path(request.model, options.data), options.table.validation, options.key};
  if (options.start.begins()) read.push_back(options.start.from);
  std::unique_ptr<training::Trainer> trainer;
  reading(request, sources_of(options), [&] {
    training::in_run_folder(request.model, options, request.common.processes, [&] {
      add_files(request, read, options);
      trainer = opened(request, options.data,
                       [&] { return training::difm_trainer(options, &stop_flag(), request.common.processes); });
    });
  });
  return train_to_end(*trainer, request, options.out, join_path(options.out, "model.safetensors"));
}

} // namespace eg::cli
