// Defines vector forms of the activation functions and their derivatives, for float and double vectors. Included by
// kernel files after core/simd/simd-inl.h, once per target.

#if defined(EQUIGRAD_POINTWISE_FUNCTIONS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef EQUIGRAD_POINTWISE_FUNCTIONS_INL_H
#undef EQUIGRAD_POINTWISE_FUNCTIONS_INL_H
#else
#define EQUIGRAD_POINTWISE_FUNCTIONS_INL_H
#endif

#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {

template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V ReciprocalSqrt(D d, V x) {
  return hn::Div(detail::Constant(d, 1.0), hn::Sqrt(x));
}

/// max(x, 0); a NaN stays.
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V Relu(D d, V x) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
}

/// g where r > 0, else 0; a NaN of r stays.
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V ReluBackward(D d, V r, V g) {
  return hn::IfThenElse(hn::Gt(r, hn::Zero(d)), g, hn::IfThenElseZero(hn::IsNaN(r), r));
}

template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V Gelu(D d, V x) { return hn::Mul(x, NormalCdf(d, x).cdf); }

/// g (Phi + x phi)
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V GeluBackward(D d, V x, V g) {
  const Normal<V> normal = NormalCdf(d, x);
  const V density = hn::Mul(normal.bell, detail::Constant(d, 0.39894228040143267794)); // 1 / sqrt(2 pi)
  return hn::Mul(g, MulAdd(d, x, density, normal.cdf));
}

namespace detail {

inline constexpr double gelu_root = 0.79788456080286535588; // sqrt(2/pi)
inline constexpr double gelu_cubic = 0.044715;

/// sigmoid(2u) = (1 + tanh u) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3): no cancellation for negative x.
template <class D, class V> HWY_INLINE Logistic<V> GeluTanhGate(D d, V x, V square) {
  const V twice_u =
      hn::Mul(x, MulAdd(d, square, Constant(d, 2.0 * gelu_root * gelu_cubic), Constant(d, 2.0 * gelu_root)));
  return LogisticPair(d, twice_u);
}

} // namespace detail

template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V GeluTanh(D d, V x) {
  return hn::Mul(x, detail::GeluTanhGate(d, x, hn::Mul(x, x)).s);
}

/// g (s + 2 x s (1 - s) u'), s = sigmoid(2u). Beyond |x| = 30 the slope is 0 or 1, and x^3 could overflow.
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V GeluTanhBackward(D d, V x, V g) {
  const V most = detail::Constant(d, 30.0);
  const V c = detail::AtMost(detail::AtLeast(x, hn::Neg(most)), most);
  const V square = hn::Mul(c, c);
  const Logistic<V> gate = detail::GeluTanhGate(d, c, square);
  const V twice_slope = MulAdd(d, square, detail::Constant(d, 6.0 * detail::gelu_root * detail::gelu_cubic),
                               detail::Constant(d, 2.0 * detail::gelu_root));
  const V bump = hn::Mul(gate.s, gate.complement);
  return hn::Mul(g, MulAdd(d, hn::Mul(c, twice_slope), bump, gate.s));
}

template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V Silu(D d, V x) { return hn::Mul(x, Sigmoid(d, x)); }

/// g s (1 + x (1 - s))
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V SiluBackward(D d, V x, V g) {
  const Logistic<V> l = LogisticPair(d, x);
  return hn::Mul(g, MulAdd(d, hn::Mul(x, l.s), l.complement, l.s));
}

/// g h: h is 0 below -3, 1 above 3, else x / 3 + 1/2. A NaN of x stays.
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V HardswishBackward(D d, V x, V g) {
  const V three = detail::Constant(d, 3.0);
  const V middle = hn::Mul(g, MulAdd(d, x, detail::Constant(d, 1.0 / 3.0), detail::Constant(d, 0.5)));
  return hn::IfThenElse(hn::Lt(x, hn::Neg(three)), hn::Zero(d), hn::IfThenElse(hn::Gt(x, three), g, middle));
}

/// g s (1 - s). Rounded twice, s - s^2 would lose the digits of 1 - s.
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V SigmoidBackward([[maybe_unused]] D d, V s, V g) {
  if constexpr (IsUnfused<D>::value) {
    return hn::Mul(g, hn::Mul(s, hn::Sub(detail::Constant(d, 1.0), s)));
  } else {
    return hn::Mul(g, hn::NegMulAdd(s, s, s));
  }
}

} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
