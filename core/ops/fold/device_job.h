#pragma once
// Defines the arguments of the device kernels of unfold and fold.

#include "core/dtype.h"

#include <cstdint>

namespace eg::device {

/// Windows along one axis, as in windows::Axis.
struct WindowAxis {
  std::int64_t extent, kernel, stride, padding, dilation, count;
};

/// columns[p, (u, v), (i, j)] = x[p, first(i) + u d, first(j) + v d] (0 in the padding) for planes p; or the adjoint,
/// in which each pixel adds its elements in the order of (u, v). Packed; f32 or f64.
struct WindowsJob {
  DType type;
  void* to;         ///< columns, or x in the adjoint
  const void* from; ///< x, or columns
  std::int64_t planes;
  WindowAxis rows, columns;
};

} // namespace eg::device
