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

// The functions below stand for several operations, each rounded. A product is fused with a sum only where `affine`
// does so.

struct AddProduct {
  template <class D, class V> static HWY_INLINE V value(D, V x, V a, V b) { return hn::Add(x, hn::Mul(a, b)); }
};
struct AddScaledProduct {
  template <class D, class V> static HWY_INLINE V value(D d, V x, V a, V b, V p) {
    return hn::Add(x, MulAdd(d, hn::Mul(a, b), p, hn::Zero(d)));
  }
};

struct AddQuotient {
  template <class D, class V> static HWY_INLINE V value(D, V x, V a, V b) { return hn::Add(x, hn::Div(a, b)); }
};
struct AddScaledQuotient {
  template <class D, class V> static HWY_INLINE V value(D d, V x, V a, V b, V p) {
    return hn::Add(x, MulAdd(d, hn::Div(a, b), p, hn::Zero(d)));
  }
};

struct Normalise {
  template <class D, class V> static HWY_INLINE V value(D, V x, V mean, V factor) {
    return hn::Mul(hn::Sub(x, mean), factor);
  }
};
struct NormaliseShift {
  template <class D, class V> static HWY_INLINE V value(D, V x, V mean, V factor, V p) {
    return hn::Add(hn::Mul(hn::Sub(x, mean), factor), p);
  }
};

struct LeakyReluGradient {
  template <class D, class V> static HWY_INLINE V value(D d, V x, V g, V slope) {
    return hn::Mul(g, hn::IfThenElse(hn::Gt(x, hn::Zero(d)), detail::Constant(d, 1.0), slope));
  }
};

struct CubeGradient {
  template <class D, class V> static HWY_INLINE V value(D d, V y, V g, V factor) {
    return hn::Mul(MulAdd(d, g, factor, hn::Zero(d)), hn::Mul(y, hn::Mul(y, y)));
  }
};

struct LogitLossGradient {
  template <class D, class V> static HWY_INLINE V value(D d, V x, V t, V g) {
    const Logistic<V> l = LogisticPair(d, x);
    const V one = detail::Constant(d, 1.0);
    const V no = hn::Mul(MulAdd(d, t, hn::Neg(one), one), l.s);
    const V yes = hn::Mul(t, l.complement);
    return hn::Mul(g, hn::Add(no, MulAdd(d, yes, hn::Neg(one), hn::Zero(d))));
  }
};

} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif // per-target include guard
