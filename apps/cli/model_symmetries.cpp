#include "apps/cli/model_symmetries.h"

#include "core/meta.h"
#include "permute/hub_symmetries.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eg::cli {
nn::StateDict OutlinedModel::tensors() const {
  const MetaCallScope shapes_alone;
  return permute::file_tensors(*model, model->module().state_dict());
}

namespace {

OutlinedModel outlined(hub::LoadedModel loaded, bool certify) {
  permute::ModelSymmetries symmetries = permute::symmetries_of(*loaded.model, permute::TensorNames::files);
  OutlinedModel result{std::move(loaded.model), std::move(loaded.report), std::move(symmetries), {}};
  if (certify) result.certificate = permute::certify(*result.model, result.symmetries, permute::TensorNames::files);
  return result;
}

} // namespace

void declare_certify(CLI::App& app, bool& skip) {
  app.add_flag("--no-certify", skip, "Do not try every generator of every group on a small copy of the model");
}

OutlinedModel outline_folder(const std::string& folder, bool certify) {
  hub::LoadedModel loaded = hub::outline_of_folder(folder);
  if (!loaded.report.complete()) throw FileError(fmt::format("{}: {}", loaded.report.path, loaded.report.summary()));
  return outlined(std::move(loaded), certify);
}

OutlinedModel outline_config(const std::string& path, bool certify) {
  return outlined({hub::outline_of_config(path), {}}, certify);
}

std::string line_of(const std::optional<permute::Certificate>& c) {
  if (!c) return "not certified (--no-certify)\n";
  return fmt::format("certified on a small copy of the model, in f64: {} generators of {} groups, largest error {:.1e} "
                     "forward, {:.1e} in gradients\n",
                     c->generators, c->groups, c->forward_error, c->gradient_error);
}

} // namespace eg::cli
