#include "apps/cli/verify_model.h"

#include "apps/cli/main_job/verify_job.h"
#include "core/device/device.h"
#include "nn/hub/folder.h"
#include "permute/catalogue/given_blocks.h"

#include <fmt/format.h>

namespace eg::cli {
std::vector<permute::VerifyResult> verify_model(const std::string& folder, const permute::VerifyOptions& options,
                                                const std::vector<DType>& dtypes, const CommonOptions& common) {
  const hub::LoadedModel loaded = hub::load_model(folder, {.dtype = DType::f64});
  loaded.model->module().to(options.device);
  const DeviceScope there(options.device); // where Z is made
  const std::vector<permute::Identity> all = permute::model_rows(*loaded.model, options);
  std::vector<const permute::Identity*> rows;
  for (const permute::Identity& row : all)
    if (permute::matches(row, options.filter)) rows.push_back(&row);
  if (rows.empty()) throw UsageError(fmt::format("verify: no row for models fits the filter '{}'", options.filter));
  return verify_rows(rows, options, dtypes, common);
}

} // namespace eg::cli
