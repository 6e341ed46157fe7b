#pragma once
// Shares what kernels over elements have in common: the grid, the loop, the offsets of strided operands.

#include "core/cuda/gpu.h"

#include "core/device/table.h"
#include "core/visit_dtype.h"

#include <cstdint>

namespace eg::cuda {

using device::Axes;
using device::Failure;

inline constexpr unsigned elements_block = 256; ///< threads of a block

/// A grid for `count` elements; larger counts are reached by steps of the whole grid.
inline dim3 elements_grid(std::int64_t count) {
  constexpr std::int64_t most = 132 * 16; // 16 blocks for each multiprocessor of the largest device that is aimed at
  const std::int64_t blocks = (count + elements_block - 1) / elements_block;
  return dim3(static_cast<unsigned>(blocks < 1 ? 1 : blocks > most ? most : blocks));
}

/// The first element of this thread, and how far the next one is.
__device__ inline std::int64_t first_element() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t element_step() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

/// Offsets, in elements, of N operands at the i-th element of the loop.
template <int N> struct Offsets { std::int64_t at[N]; };
template <int N> __device__ Offsets<N> offsets_at(const Axes<N>& axes, std::int64_t i) {
  Offsets<N> offsets = {};
  for (int axis = axes.rank - 1; axis >= 0; --axis) {
    const std::int64_t rest = axis == 0 ? i : i % axes.extent[axis];
    i = axis == 0 ? 0 : i / axes.extent[axis];
    for (int k = 0; k < N; ++k) offsets.at[k] += rest * axes.stride[k][axis];
  }
  return offsets;
}

/// Calls f.template operator()<T>() with the C++ type of f32 or f64; refuses other dtypes.
template <class F> Failure visit_floating_type(DType type, F&& f) {
  return is_floating(type) ? visit_floating(type, f) : "the element type must be f32 or f64";
}
/// Calls f.template operator()<T>() with the unsigned integer type of `size` bytes: for kernels that move elements.
template <class F> Failure visit_size(std::size_t size, F&& f) {
  switch (size) {
  case 1:
    return f.template operator()<std::uint8_t>();
  case 2:
    return f.template operator()<std::uint16_t>();
  case 4:
    return f.template operator()<std::uint32_t>();
  case 8:
    return f.template operator()<std::uint64_t>();
  default:
    return "elements have 1, 2, 4 or 8 bytes";
  }
}

} // namespace eg::cuda
