#include "cli/model_symmetries.h"

#include "core/meta.h"
#include "hub/binding.h"

#include <fmt/format.h>

namespace eg::cli {
namespace {

/// A model's tensors as its files have them.
nn::StateDict file_tensors(const hub::Model& model, const nn::StateDict& parameters) {
  nn::StateDict files;
  for (const hub::Binding& b : model.bindings())
    for (const auto& [name, parameter] : parameters)
      if (name == b.parameter) files.emplace_back(b.file, hub::bound(parameter, b));
  return files;
}

permute::ModelSymmetries symmetries_of(hub::Model& model) {
  const MetaCallScope shapes_alone;
  permute::SymmetryQuery query;
  query.parameters = model.module().state_dict();
  query.inputs = model.input_shapes(1);
  for (const auto& [name, tensor] : query.inputs)
    if (tensor.dtype() == DType::i64) query.data_axes.emplace_back(name, 1);
  query.run = [&] { return model.forward(query.inputs); };
  query.shown = [&] { return file_tensors(model, query.parameters); };
  return permute::ModelSymmetries(query);
}

} // namespace

nn::StateDict OutlinedModel::tensors() const {
  const MetaCallScope shapes_alone;
  return file_tensors(*model, model->module().state_dict());
}

OutlinedModel outline_folder(const std::string& folder) {
  hub::LoadedModel loaded = hub::outline_of_folder(folder);
  if (!loaded.report.complete()) throw FileError(fmt::format("{}: {}", loaded.report.path, loaded.report.summary()));
  permute::ModelSymmetries symmetries = symmetries_of(*loaded.model);
  return {std::move(loaded.model), std::move(loaded.report), std::move(symmetries)};
}

OutlinedModel outline_config(const std::string& path) {
  std::unique_ptr<hub::Model> model = hub::outline_of_config(path);
  permute::ModelSymmetries symmetries = symmetries_of(*model);
  return {std::move(model), {}, std::move(symmetries)};
}

} // namespace eg::cli
