#pragma once
// Shares what the readers and writers of npy and npz have in common; used by the files of this folder only.

#include "core/base/input_file.h"
#include "data/npy.h"
#include "data/tensor_place.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace eg::data {

/// What a tensor made from an npy file looks like in its file: the axes of column-major data reversed.
struct NpyLayout {
  Shape shape;      ///< of the tensor
  Shape file_shape; ///< of the values as they follow each other
};
NpyLayout npy_layout(const NpyHeader& header, const TensorPlace& place);
/// The tensor whose values are in `file_shape`: itself, or a packed copy with the axes in the right order.
Tensor in_row_major(const Tensor& values, const NpyHeader& header, const Shape& shape);

/// Version 1.0 header of a tensor. Throws DTypeError that names `tensor`.
std::string npy_header_text(const Tensor& tensor, const std::string& name);

TensorReader open_npy(std::unique_ptr<const InputFile> file);
TensorReader open_npz(std::unique_ptr<const InputFile> file);

} // namespace eg::data
