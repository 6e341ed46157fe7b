#pragma once
// Shares the layout of heads, the reference and the gradient rule of the attention ops.

#include "core/op.h"
#include "core/ops/attention/kernels.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

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

// --- masks: floating ones are added to the scores, boolean ones say which keys are seen ---

/// Throws unless input i, where given, is boolean or of the dtype of input 0 and broadcasts to `scores`
/// [..., Tq, Tk].
void check_mask(const OpArgs& args, std::size_t i, const Shape& scores);
/// True where input i was given and is floating: it has a gradient.
bool mask_is_floating(const OpArgs& args, std::size_t i);
/// The mask as numbers to add, packed; a boolean one becomes 0 and -infinity. Undefined for an undefined mask. No tape
/// sees it.
Tensor additive_mask(const Tensor& mask, DType dtype);

/// The same for input i of a call, undefined where it was not given.
Tensor mask_of(const OpArgs& args, std::size_t i);
/// The attribute mask_gradient of the backward rows.
bool wants_mask_gradient(const OpArgs& args);
/// Throws ValueError where mask_gradient is set and input `mask` is not a floating one.
void check_mask_gradient(const OpArgs& args, std::size_t mask);

/// The masks of the heads: a packed mask, read as if it were broadcast to `scores`. T may be const.
template <class T> class Masks {
public:
  /// None.
  Masks() = default;
  Masks(const Tensor& mask, T* data, const Shape& scores);

  bool any() const { return data_ != nullptr; }
  std::int64_t offset(std::int64_t head) const;
  attention_kernels::Mask<std::remove_const_t<T>> operator()(std::int64_t head) const {
    if (data_ == nullptr) return {};
    return {data_ + offset(head), row_, column_};
  }
  /// The gradient that has this mask's shape; shared where leading axes repeat.
  template <class U = T> attention_kernels::MaskGradient<U> gradient() const { // a template: not made for const T
    return {data_, elements_, row_, column_, shared_};
  }

private:
  Shape leading_, strides_;
  T* data_ = nullptr;
  std::int64_t row_ = 0, column_ = 0, elements_ = 0;
  bool shared_ = false;
};

/// The masks that `added` gives (packed numbers; undefined: none), read as if they were broadcast to `scores`.
template <class T> Masks<const T> masks_of(const Tensor& added, const Shape& scores) {
  return added.defined() ? Masks<const T>(added, added.data<T>(), scores) : Masks<const T>();
}

// --- samples ---

bool is_causal(const Sample& sample);
/// Samples of a backward row (operands, y, lse, g, dlse, mask) from those of its forward row (operands, mask), whose
/// outputs are y and lse: `mask` is the number of operands. Half of them have a cotangent of lse. `tag` is that of the
/// first g, less one.
std::vector<Sample> samples_of_backward(const OpDef& forward, const std::vector<Sample>& samples, std::size_t mask,
                                        DType dtype, std::uint64_t tag);

// --- plain loops in f64 ---

void forward_reference(const attention_kernels::Extents& extents,
                       FunctionRef<attention_kernels::ForwardHead<double>(std::int64_t)> head);
void backward_reference(const attention_kernels::Extents& extents,
                        FunctionRef<attention_kernels::BackwardHead<double>(std::int64_t)> head,
                        const attention_kernels::MaskGradient<double>& dmask = {});

// --- the rule of the backward ops ---

/// Inputs of a backward op, or their gradients: q [..., T, D], k, v (possibly fewer heads), y, g [..., T, Dv], lse,
/// dlse [..., T], mask.
struct BackwardInputs {
  Tensor q, k, v, y, lse, g, dlse, mask;
};

/// Which gradients are asked for.
struct BackwardWants {
  bool q, k, v, y, lse, g, dlse, mask;
};

/// Cotangents of dq, dk, dv and dmask; undefined ones are zero.
struct BackwardCotangents {
  Tensor q, k, v, mask;
};

/// Gradients of <a, dq> + <b, dk> + <c, dv> + <m, dmask> with respect to the wanted inputs. y and lse count as inputs
/// of their own: what reaches q, k and v through them is added by the rule of the forward op. The gradient of the mask
/// has the shape of the scores.
BackwardInputs backward_rule(const BackwardInputs& in, const BackwardWants& wants, const BackwardCotangents& cotangent,
                             double scale, bool causal);

/// All outputs are empty: heads without elements, of which there may be billions, need no visit.
inline bool nothing_to_write(std::span<const Tensor> out) {
  return std::all_of(out.begin(), out.end(), [](const Tensor& y) { return y.numel() == 0; });
}

/// x [..., heads, T, D] with each head repeated `group` times in place, through views that a tape sees.
Tensor repeat_heads(const Tensor& x, std::int64_t group);
/// The adjoint of repeat_heads.
Tensor sum_groups(const Tensor& x, std::int64_t group);
/// The mask of a causal call [Tq, Tk]: 0 where j <= i + Tk - Tq, else -infinity.
Tensor causal_mask(std::int64_t queries, std::int64_t keys, DType dtype);

} // namespace eg::attention_parts
