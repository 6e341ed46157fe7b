#include "apps/cli/tensor_inputs.h"

#include "data/safetensors.h"

namespace eg::cli {

hub::Tensors read_tensor_inputs(const std::string& path, DType dtype) {
  hub::Tensors inputs;
  for (auto& [name, tensor] : data::load_safetensors(path, {.widen = true, .map = false}).tensors)
    inputs.emplace_back(name, is_floating(tensor.dtype()) ? tensor.to(dtype) : std::move(tensor));
  return inputs;
}

} // namespace eg::cli
