#pragma once
// Loops over operands that broadcast against each other, cut into runs along the innermost axis.

#include "core/ops/pointwise/kernels.h"
#include "core/ops/row_tools.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <array>

namespace eg::pointwise {

/// Operands over the output's axes, neighbouring axes merged where all allow it; stride 0 repeats.
template <std::size_t N> struct BroadcastLoop {
  Shape shape;
  std::array<Shape, N> strides;

  /// Length of a run.
  std::int64_t inner() const { return shape.rank() == 0 ? 1 : shape[-1]; }
  /// Step of operand k along a run.
  std::int64_t step(std::size_t k) const { return shape.rank() == 0 ? 1 : strides[k][-1]; }
  /// Offset of operand k at the start of a run (counted over all axes but the last), in elements.
  std::int64_t offset(std::size_t k, std::int64_t run) const {
    std::int64_t offset = 0;
    for (int axis = shape.rank() - 2; axis >= 0; --axis) {
      offset += run % shape[axis] * strides[k][axis];
      run /= shape[axis];
    }
    return offset;
  }
};

/// Stride of x along the output's axis `back` places from the end.
inline std::int64_t broadcast_stride(const Tensor& x, int back) {
  if (x.rank() < back || x.shape()[-back] == 1) return 0;
  return x.strides()[-back];
}

template <std::size_t N> BroadcastLoop<N> broadcast_loop(const std::array<Tensor, N>& operands, const Shape& out) {
  BroadcastLoop<N> loop;
  for (int axis = 0; axis < out.rank(); ++axis) {
    if (out[axis] == 1) continue;
    std::array<std::int64_t, N> stride{};
    bool merges = loop.shape.rank() > 0;
    for (std::size_t k = 0; k < N; ++k) {
      stride[k] = broadcast_stride(operands[k], out.rank() - axis);
      merges = merges && loop.strides[k][-1] == stride[k] * out[axis];
    }
    if (merges)
      loop.shape[-1] *= out[axis];
    else
      loop.shape.push_back(out[axis]);
    for (std::size_t k = 0; k < N; ++k) {
      if (merges)
        loop.strides[k][-1] = stride[k];
      else
        loop.strides[k].push_back(stride[k]);
    }
  }
  return loop;
}

/// f(offsets of the operands, offset in the packed output, count) for pieces of at most one chunk of every run, on all
/// threads; short runs are taken several at a time.
template <std::size_t N, class F> void for_each_piece(const BroadcastLoop<N>& loop, F&& f) {
  const std::int64_t n = loop.inner();
  const std::int64_t runs = n == 0 ? 0 : loop.shape.numel() / n;
  const std::int64_t pieces = parallel::chunks(n, chunk);
  parallel::for_each(runs * pieces, std::max<std::int64_t>(1, chunk / std::max<std::int64_t>(n, 1)),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t task = begin; task < end; ++task) {
                         const std::int64_t run = task / pieces;
                         const std::int64_t start = task % pieces * chunk;
                         std::array<std::int64_t, N> offsets;
                         for (std::size_t k = 0; k < N; ++k) offsets[k] = loop.offset(k, run) + start * loop.step(k);
                         f(offsets, run * n + start, std::min(chunk, n - start));
                       }
                     });
}

/// The scalar tensor `value` of x's element type. Throws ValueError when a whole-number type cannot hold it.
Tensor number_like(std::string_view op, const Tensor& x, double value);

} // namespace eg::pointwise
