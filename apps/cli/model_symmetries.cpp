#include "apps/cli/model_symmetries.h"

#include "core/meta.h"
#include "permute/hub_symmetries.h"

#include <fmt/format.h>

namespace eg::cli {
nn::StateDict OutlinedModel::tensors() const {
  const MetaCallScope shapes_alone;
  return permute::file_tensors(*model, model->module().state_dict());
}

OutlinedModel outline_folder(const std::string& folder) {
  hub::LoadedModel loaded = hub::outline_of_folder(folder);
  if (!loaded.report.complete()) throw FileError(fmt::format("{}: {}", loaded.report.path, loaded.report.summary()));
  permute::ModelSymmetries symmetries = permute::symmetries_of(*loaded.model, permute::TensorNames::files);
  return {std::move(loaded.model), std::move(loaded.report), std::move(symmetries)};
}

OutlinedModel outline_config(const std::string& path) {
  std::unique_ptr<hub::Model> model = hub::outline_of_config(path);
  permute::ModelSymmetries symmetries = permute::symmetries_of(*model, permute::TensorNames::files);
  return {std::move(model), {}, std::move(symmetries)};
}

} // namespace eg::cli
