#pragma once
// Makes the axes of a device loop from shapes and strides.

#include "core/device/jobs.h"
#include "core/shape.h"
#include "core/tensor.h"

#include <array>
#include <cstddef>

namespace eg::device {

/// The loop over `shape` with these strides in elements; axes of extent 1 are left out, and neighbouring axes are
/// merged where every operand steps through both evenly.
template <std::size_t N>
Axes<static_cast<int>(N)> merged_axes(const Shape& shape, const std::array<Shape, N>& strides) {
  Axes<static_cast<int>(N)> axes;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    bool merges = axes.rank > 0;
    for (std::size_t k = 0; k < N; ++k)
      merges = merges && axes.stride[k][axes.rank - 1] == strides[k][axis] * shape[axis];
    if (!merges) axes.extent[axes.rank++] = 1;
    axes.extent[axes.rank - 1] *= shape[axis];
    for (std::size_t k = 0; k < N; ++k) axes.stride[k][axes.rank - 1] = strides[k][axis];
  }
  return axes;
}

/// The loop over y (packed) with operands broadcast to its shape by NumPy's rule. Operand 0 is y.
template <std::size_t N>
Axes<static_cast<int>(N) + 1> broadcast_axes(const Tensor& y, const std::array<const Tensor*, N>& operands) {
  const Shape& shape = y.shape();
  std::array<Shape, N + 1> strides;
  strides[0] = y.strides();
  for (std::size_t k = 0; k < N; ++k) {
    const Tensor& x = *operands[k];
    strides[k + 1] = shape;
    for (int back = 1; back <= shape.rank(); ++back)
      strides[k + 1][-back] = x.rank() < back || x.shape()[-back] == 1 ? 0 : x.strides()[-back];
  }
  return merged_axes<N + 1>(shape, strides);
}

} // namespace eg::device
