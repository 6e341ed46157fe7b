#pragma once
// Reads the inputs of a model from a file.

#include "nn/hub/model.h"

#include <string>

namespace eg::cli {

/// All tensors of a safetensors file, floating ones in `dtype`. Throws FileError.
hub::Tensors read_tensor_inputs(const std::string& path, DType dtype);

} // namespace eg::cli
