#include "apps/cli/verify_model.h"

#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/shell/verb.h"
#include "core/device/device.h"
#include "nn/hub/folder.h"
#include "permute/catalogue/given_blocks.h"

#include <fmt/format.h>

namespace eg::cli {
std::vector<permute::VerifyResult> verify_model(const std::string& folder, permute::VerifyOptions options,
                                                const std::vector<DType>& dtypes, bool show_progress) {
  const hub::LoadedModel loaded = hub::load_model(folder, {.dtype = DType::f64});
  loaded.model->module().to(options.device);
  const DeviceScope there(options.device); // where Z is made
  const std::vector<permute::Identity> rows = permute::model_rows(*loaded.model, options);
  Progress progress(show_progress);
  std::vector<permute::VerifyResult> all;
  for (const DType dtype : dtypes)
    for (const permute::Identity& row : rows) {
      if (!permute::matches(row, options.filter)) continue;
      options.dtype = dtype;
      progress.show(static_cast<double>(all.size()), static_cast<double>(rows.size() * dtypes.size()),
                    {{fmt::format("{} {}", name_of(dtype), row.id), 1}});
      all.push_back(permute::verify(row, options));
      throw_if_stopped();
    }
  if (all.empty()) throw UsageError(fmt::format("verify: no row for models fits the filter '{}'", options.filter));
  return all;
}

} // namespace eg::cli
