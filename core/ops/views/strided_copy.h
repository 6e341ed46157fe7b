#pragma once
// Copies strided elements: the one kernel behind contiguous, clone, concat, pad and patchify.

#include "core/tensor.h"

namespace eg {

/// dst[i] = src[i] for every index i of `shape`; strides in elements, any values for src (0 repeats), dst without
/// overlap. Runs over all threads. Dense runs are memcpy'd, transposes go block by block.
void strided_copy(DType dtype, const Shape& shape, std::byte* dst, const Shape& dst_strides, const std::byte* src,
                  const Shape& src_strides);

/// Every element of the destination becomes the one element that `value` points to.
void strided_fill(DType dtype, const Shape& shape, std::byte* dst, const Shape& dst_strides, const std::byte* value);

// The next three also write to tensors on a device, with x on the same one.

/// Every byte of a packed tensor becomes 0.
void fill_zeros(Tensor& y);

/// Writes x into the indices start, start + step, ... of one axis of y (packed); the others stay as they are.
void write_along(Tensor& y, const Tensor& x, int axis, std::int64_t start, std::int64_t step = 1);

/// The same, with the one element `fill` at every index of the axis that x does not reach.
void embed_along(Tensor& y, const Tensor& x, int axis, std::int64_t start, std::int64_t step, const std::byte* fill);

/// x into a packed destination.
void pack_into(std::byte* dst, const Tensor& src);

/// A packed copy of x, not recorded.
Tensor packed_copy(const Tensor& x);

} // namespace eg
