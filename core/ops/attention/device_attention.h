#pragma once
// Runs attention on a device: gives kernels the places of the heads in q, k, v or in the packed projection.

#include "core/ops/attention/kernels.h"
#include "core/tensor.h"

#include <cstdint>

namespace eg::device_attention {

/// A matrix for each head of a tensor, rows of unit stride. Row i of the head at `indices` begins at element
/// offset + i*ld + (sum over the axes of indices*strides).
struct HeadRows {
  Tensor tensor;
  std::int64_t offset = 0, ld = 0;
  Shape strides; ///< one for each axis of the heads
};

/// The axes of the heads of x [..., heads, T, D]: [..., heads / group, group].
Shape head_axes(const Tensor& x, std::int64_t group);
/// The heads of x [..., heads, T, D] as head_axes(x, group) counts them; `shared`: x has one head for each group.
HeadRows rows_of(const Tensor& x, std::int64_t group, bool shared);
/// The same for `heads` heads of `head_dim` columns each, side by side from `first` on, of x [..., T, columns]; the
/// axes of the heads are [..., heads, 1].
HeadRows columns_of(const Tensor& x, std::int64_t heads, std::int64_t head_dim, std::int64_t first);

/// Heads, what they share, and their masks.
struct Call {
  const char* name; ///< of the row
  attention_kernels::Extents extents;
  Shape heads;  ///< axes of the heads, the last one those that share keys and values
  Shape scores; ///< [..., Tq, Tk], to which the mask is broadcast
  HeadRows q, k, v;
  Tensor mask; ///< as the row got it; may be undefined
};

/// y = softmax(scale q k^T + mask) v and lse [..., Tq] (packed), as attention_kernels::forward.
void forward(const Call& call, HeadRows y, Tensor& lse);

/// What the gradients are made of beside the operands. lse and dlse are packed; dlse may be undefined.
struct Cotangents {
  HeadRows y, g;
  Tensor lse, dlse;
};
/// dq, dk, dv, and the gradient of the mask (packed; nullptr: not wanted), as attention_kernels::backward.
struct GradientsOfHeads {
  HeadRows dq, dk, dv;
  Tensor* dmask = nullptr;
};
void backward(const Call& call, const Cotangents& given, GradientsOfHeads out);

} // namespace eg::device_attention
