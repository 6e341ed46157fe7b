// Defines vector functions of three operands. Included by kernel files once per target.

#include "core/simd/simd-inl.h" // ahead of the guard: it includes the kernel file, and so this one, once per target

#include <limits>

#if defined(EQUIGRAD_POINTWISE_TERNARY_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef EQUIGRAD_POINTWISE_TERNARY_INL_H
#undef EQUIGRAD_POINTWISE_TERNARY_INL_H
#else
#define EQUIGRAD_POINTWISE_TERNARY_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {

struct Lerp {
  template <class D, class V> static HWY_INLINE V value(D d, V a, V b, V w) {
    const V way = hn::Sub(b, a);
    const V from_a = hn::Add(a, hn::Mul(w, way));
    const V from_b = hn::Sub(b, hn::Mul(hn::Sub(detail::Constant(d, 1.0), w), way));
    return hn::IfThenElse(hn::Lt(hn::Abs(w), detail::Constant(d, 0.5)), from_a, from_b);
  }
};

struct ScaledExp {
  template <class D, class V> static HWY_INLINE V value(D d, V g, V x, V s) {
    const V y = hn::Mul(g, Exp(d, hn::Sub(x, s)));
    return hn::IfThenElse(hn::Eq(s, detail::Constant(d, -std::numeric_limits<double>::infinity())), hn::Zero(d), y);
  }
};

} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif // per-target include guard
