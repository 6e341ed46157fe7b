#include "permute/hub_symmetries.h"

#include "core/meta.h"
#include "nn/hub/binding.h"

namespace eg::permute {

nn::StateDict file_tensors(const hub::Model& model, const nn::StateDict& parameters) {
  nn::StateDict files;
  for (const hub::Binding& b : model.bindings())
    for (const auto& [name, parameter] : parameters)
      if (name == b.parameter) files.emplace_back(b.file, hub::bound(parameter, b));
  return files;
}

ModelSymmetries symmetries_of(hub::Model& model, TensorNames names) {
  const MetaCallScope shapes_alone;
  SymmetryQuery query;
  query.parameters = model.module().state_dict();
  query.inputs = model.input_shapes(1);
  for (const auto& [name, tensor] : query.inputs)
    if (tensor.dtype() == DType::i64) query.data_axes.emplace_back(name, 1);
  query.run = [&] { return model.forward(query.inputs); };
  if (names == TensorNames::files) query.shown = [&] { return file_tensors(model, query.parameters); };
  return ModelSymmetries(query);
}

} // namespace eg::permute
