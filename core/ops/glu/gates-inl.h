// Defines vector forms of the gates of gated linear units and of their slopes. Included by kernel files once per
// target.

#include "core/simd/simd-inl.h" // ahead of the guard: it includes the kernel file, and so this one, once per target

#include "core/ops/glu/kernels.h"
#include "core/ops/pointwise/functions-inl.h"

#if defined(EQUIGRAD_GLU_GATES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef EQUIGRAD_GLU_GATES_INL_H
#undef EQUIGRAD_GLU_GATES_INL_H
#else
#define EQUIGRAD_GLU_GATES_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {

using glu_kernels::Gate;

/// act(x) and g act'(x) for each gate.
template <Gate kind, class D, class V> HWY_INLINE V Act(D d, V x) {
  if constexpr (kind == Gate::sigmoid)
    return Sigmoid(d, x);
  else if constexpr (kind == Gate::relu)
    return Relu(d, x);
  else if constexpr (kind == Gate::silu)
    return Silu(d, x);
  else if constexpr (kind == Gate::gelu)
    return Gelu(d, x);
  else
    return GeluTanh(d, x);
}

/// The value and the slope of a gate at x.
template <class V> struct Both { V value, slope; };

template <Gate kind, class D, class V> HWY_INLINE Both<V> ActBoth(D d, V x) {
  if constexpr (kind == Gate::silu) {
    const Logistic<V> l = LogisticPair(d, x);
    const V value = hn::Mul(x, l.s);
    return {value, MulAdd(d, value, l.complement, l.s)};
  } else if constexpr (kind == Gate::sigmoid) {
    const Logistic<V> l = LogisticPair(d, x);
    return {l.s, hn::Mul(l.s, l.complement)};
  } else if constexpr (kind == Gate::gelu) {
    const Normal<V> normal = NormalCdf(d, x);
    const V density = hn::Mul(normal.bell, detail::Constant(d, 0.39894228040143267794)); // 1 / sqrt(2 pi)
    return {hn::Mul(x, normal.cdf), MulAdd(d, x, density, normal.cdf)};
  } else if constexpr (kind == Gate::relu) {
    const V one = detail::Constant(d, 1.0);
    return {Relu(d, x), hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), one)};
  } else {
    return {GeluTanh(d, x), GeluTanhBackward(d, x, detail::Constant(d, 1.0))};
  }
}

} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif // per-target include guard
