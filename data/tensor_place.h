#pragma once
// Shares what the readers of tensor files have in common; used by the files of this folder only.

#include "core/base/error.h"
#include "core/base/function_ref.h"
#include "core/base/input_file.h"
#include "core/tensor.h"
#include "data/element_type.h"
#include "data/tensor_reader.h"

#include <cstdint>
#include <string>
#include <vector>

namespace eg::data {

/// Says where in which file something is wrong.
struct TensorPlace {
  const std::string& source;
  const std::string& tensor; ///< empty: the file as a whole

  [[noreturn]] void fail(const std::string& reason) const;
};

/// a * b, or a failure when it passes 64 bits.
std::uint64_t checked_product(std::uint64_t a, std::uint64_t b, const TensorPlace& place);

/// The shape of a tensor of these extents, none negative. Fails for more axes than a tensor can have, and for extents
/// whose product overflows even where another one is 0.
Shape checked_shape(const std::vector<std::int64_t>& dims, const TensorPlace& place);

/// What the elements become. Fails for types that are not read, saying whether `widen` would help.
DType checked_type(ElementType type, bool widen, const TensorPlace& place);

/// Fails because a value of a tensor of `type` has no counterpart.
[[noreturn]] void refuse_value(ElementType type, const TensorPlace& place);

/// Where and how the elements of a tensor are stored in a file, in row-major order.
struct FileElements {
  std::uint64_t offset = 0; ///< bytes from the start of the file
  ElementType type = ElementType::f32;
  bool big_endian = false;
};
/// The tensor that they make; the caller has compared their number with the file's size.
Tensor read_elements(const InputFile& file, const FileElements& elements, const Shape& shape,
                     const LoadOptions& options, const TensorPlace& place);

/// Gives the next `bytes` bytes of a stream of elements.
using ReadNext = FunctionRef<void(std::byte* to, std::size_t bytes)>;
/// The same from a stream, never mapped.
Tensor read_elements(ReadNext next, ElementType type, bool big_endian, const Shape& shape, bool widen,
                     const TensorPlace& place);

} // namespace eg::data
