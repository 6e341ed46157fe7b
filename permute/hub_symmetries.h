#pragma once
// Finds the symmetries of models of Hugging Face's families.

#include "nn/hub/model.h"
#include "permute/symmetries.h"

namespace eg::permute {

/// A model's tensors as its files have them, cut from `parameters`.
nn::StateDict file_tensors(const hub::Model& model, const nn::StateDict& parameters);

/// Whose names the axes are given in.
enum class TensorNames : std::uint8_t { files, parameters };

/// What the model commutes with, found on shapes alone: its tokens are data, its tensors may be real or meta.
ModelSymmetries symmetries_of(hub::Model& model, TensorNames names);

} // namespace eg::permute
