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

/// The model's outputs as a function of its parameters and then its inputs, by the names of symmetries_of: for files'
/// names the files' tensors are among the outputs. The model must stay.
NamedFunction function_of(hub::Model& model, TensorNames names);

/// Certifies symmetries_of(model, names) on hub::small_copy(model), which has values and takes milliseconds. First the
/// copy's groups must be the model's, axis by axis, whatever their sizes; layers from the third on must have those of
/// the second. Then every generator of the copy is tried, forward and with all gradients (ModelSymmetries::certify).
/// Throws SymmetryError where the groups differ or a generator fails.
Certificate certify(hub::Model& model, const ModelSymmetries& symmetries, TensorNames names,
                    double tolerance = CertifyOptions{}.tolerance);

} // namespace eg::permute
