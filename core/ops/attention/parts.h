#pragma once
// What the attention rows share: how heads lie in tensors, the reference, and the rule of the backward ops.

#include "core/op.h"
#include "core/ops/attention/kernels.h"

#include <cstdint>

namespace eg::attention_parts {

/// The attribute scale, or 1/sqrt(head_dim) where it is 0.
double scale_of(double attribute, std::int64_t head_dim);

/// The tensor if its last axis has unit stride and its rows do not overlap, else a packed copy: what the kernels can
/// read in place.
Tensor with_rows(const Tensor& x);

/// The matrices of a tensor [..., rows, columns], one per leading index.
template <class T> class Matrices {
public:
  Matrices(const Tensor& x, T* data);
  /// Number `index` of the leading indices in row-major order.
  attention_kernels::Rows<T> operator()(std::int64_t index) const {
    std::int64_t offset = 0;
    for (int axis = leading_.rank() - 1; axis >= 0; --axis) {
      offset += index % leading_[axis] * strides_[axis];
      index /= leading_[axis];
    }
    return {data_ + offset, ld_};
  }

private:
  Shape leading_, strides_;
  T* data_;
  std::int64_t ld_;
};

/// The axes of a shape but the last `trailing` ones.
Shape leading_axes(const Shape& shape, int trailing);

// --- plain loops in f64 ---

void forward_reference(const attention_kernels::Extents& extents,
                       FunctionRef<attention_kernels::ForwardHead<double>(std::int64_t)> head);
void backward_reference(const attention_kernels::Extents& extents,
                        FunctionRef<attention_kernels::BackwardHead<double>(std::int64_t)> head);

// --- the rule of the backward ops ---

/// Inputs of a backward op, or their gradients: q, k [..., T, D], v, y, g [..., T, Dv], lse, dlse [..., T].
struct BackwardInputs {
  Tensor q, k, v, y, lse, g, dlse;
};

/// Which gradients are asked for.
struct BackwardWants {
  bool q, k, v, y, lse, g, dlse;
};

/// Gradients of <a, dq> + <b, dk> + <c, dv> with respect to the wanted inputs; a, b, c may be undefined (zero). y and
/// lse count as inputs of their own: what reaches q, k and v through them is added by the rule of the forward op.
BackwardInputs backward_rule(const BackwardInputs& in, const BackwardWants& wants, const Tensor& a, const Tensor& b,
                             const Tensor& c, double scale);

} // namespace eg::attention_parts
