// Defines exponentials and logarithms of double vectors whose results are rounded to float. A relative error below
// 2^-40 suffices, in half the steps that a double takes. Included by files of vector functions, once per target.

#if defined(EQUIGRAD_POINTWISE_ROUNDED_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef EQUIGRAD_POINTWISE_ROUNDED_INL_H
#undef EQUIGRAD_POINTWISE_ROUNDED_INL_H
#else
#define EQUIGRAD_POINTWISE_ROUNDED_INL_H
#endif

#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {

/// The tag of double vectors that hold floats, and whose results are rounded to float.
template <class D> struct ForFloats : D {};
template <class D> struct IsForFloats : std::false_type {};
template <class D> struct IsForFloats<ForFloats<D>> : std::true_type {};

namespace detail {

/// 2^z; outside of [-200, 200] a float is 0 or infinite anyway.
template <class D, class V> HWY_INLINE V FloatPowerOfTwo(D d, V z) {
  const hn::RebindToUnsigned<D> du;
  const V rounder = hn::Set(d, FloatFormat<double>::rounder);
  const V held = AtMost(AtLeast(z, Constant(d, -200.0)), Constant(d, 200.0));
  const V shifted = hn::Add(held, rounder);
  const V power = PairedPolynomial<simd::RoundedFormat::power_of_two>(d, hn::Sub(held, hn::Sub(shifted, rounder)));
  const auto exponent = hn::ShiftLeft<FloatFormat<double>::mantissa_bits>(hn::BitCast(du, shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(du, power), exponent));
}

/// x = 2^k (1 + f) with 1 + f from sqrt(1/2) to sqrt 2, for positive normal x.
template <class V> struct Binary {
  V k;
  V f;
};
template <class D, class V> HWY_INLINE Binary<V> SplitBinary(D d, V x) {
  using Format = LogFormat<double>;
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::Add(hn::BitCast(du, x), hn::Set(du, Format::one - Format::root_half));
  const auto exponent =
      hn::Or(hn::ShiftRight<FloatFormat<double>::mantissa_bits>(bits), hn::Set(du, Format::two_power));
  const auto m = hn::Add(hn::And(bits, hn::Set(du, Format::mantissa)), hn::Set(du, Format::root_half));
  return {hn::Sub(hn::BitCast(d, exponent), hn::Set(d, Format::two_power_value + FloatFormat<double>::bias)),
          hn::Sub(hn::BitCast(d, m), Constant(d, 1.0))};
}

/// ln(1 + f) for the f of SplitBinary: 2 atanh(f / (2 + f)).
template <class D, class V> HWY_INLINE V LogOfSplit(D d, V f) {
  const V s = hn::Div(f, hn::Add(f, Constant(d, 2.0)));
  return hn::Mul(s, PairedPolynomial<simd::RoundedFormat::twice_atanh>(d, hn::Mul(s, s)));
}

/// y, a logarithm of x, where x is positive and finite: else -inf for 0, inf for inf, NaN.
template <class D, class V> HWY_INLINE V OrLogLimit(D d, V x, V y) {
  const V infinity = hn::Set(d, std::numeric_limits<double>::infinity());
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), y, hn::Set(d, std::numeric_limits<double>::quiet_NaN()));
}

/// ln(1 + e^-z) for z >= 0 or NaN: the logarithm is 2 atanh(e / (2 + e)) for e <= 1.
template <class D, class V> HWY_INLINE V LogOnePlusPower(D d, V z) {
  const V e = FloatPowerOfTwo(d, hn::Mul(z, Constant(d, -1.4426950408889634074)));
  const V s = hn::Div(e, hn::Add(e, Constant(d, 2.0)));
  return hn::Mul(s, PairedPolynomial<simd::RoundedFormat::twice_atanh_third>(d, hn::Mul(s, s)));
}

} // namespace detail
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
