// Includes Highway (no other file does) and defines vector functions. A kernel file is compiled once per target
// (baseline, AVX2, AVX-512) and the best one that the processor has is chosen at run time:
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "core/ops/softmax/softmax_simd.cpp" // this very file
//   #include "core/simd/simd-inl.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace eg::HWY_NAMESPACE {
//   void SoftmaxRow(const float* x, float* y, std::int64_t n) { const hn::ScalableTag<float> d; ... Exp(d, v) ... }
//   } // namespace eg::HWY_NAMESPACE
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   namespace eg {
//   HWY_EXPORT(SoftmaxRow);
//   void softmax_row(...) { HWY_DYNAMIC_DISPATCH(SoftmaxRow)(...); }
//   } // namespace eg
//   #endif
//
// Standard and project headers go above the HWY_TARGET_INCLUDE lines. On the baseline of g++ 12 a vector has one lane
// (HWY_SCALAR), where operations across lanes do not exist: use Load, Store, arithmetic, and SumOfLanes/MaxOfLanes.
//
// Below are the functions that Highway's own contrib/math gets wrong for NaN and infinities or does not have. All take
// float and double vectors; a NaN gives a NaN. Errors in ULP are measured in tests/unit/core_pointwise_test.cpp.

#ifndef EQUIGRAD_SIMD_TARGETS
#define EQUIGRAD_SIMD_TARGETS
// Three targets keep compile time and binary small: what is left is the baseline, AVX2 and AVX3 (AVX-512 F/BW/DQ/VL).
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include <cstddef>
#include <cstdint>
#include <limits>
#endif

#include "hwy/cache_control.h"  // FlushStream, after hn::Stream
#include "hwy/foreach_target.h" // re-includes HWY_TARGET_INCLUDE, once per target
#include "hwy/highway.h"

#if defined(EQUIGRAD_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef EQUIGRAD_SIMD_INL_H
#undef EQUIGRAD_SIMD_INL_H
#else
#define EQUIGRAD_SIMD_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D> using LaneOf = hn::TFromD<D>;

/// The first `count` lanes from p, zeros above; count in [0, lanes]. Reads no further than p[count - 1].
template <class D> HWY_INLINE HWY_MAYBE_UNUSED hn::Vec<D> LoadUpTo(D d, const LaneOf<D>* p, std::size_t count) {
  return hn::MaskedLoad(hn::FirstN(d, count), d, p);
}

/// Writes the first `count` lanes of v to p.
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED void StoreUpTo(V v, D d, LaneOf<D>* p, std::size_t count) {
  hn::BlendedStore(v, hn::FirstN(d, count), d, p);
}

namespace detail {

template <class D> HWY_INLINE hn::Vec<D> Constant(D d, double value) {
  return hn::Set(d, static_cast<LaneOf<D>>(value));
}

/// sum_i c[i] x^i; the coefficients are template arguments, so that device code sees them as constants.
template <const auto& c, std::size_t i, class D, class V> HWY_INLINE V PolynomialFrom(D d, V x) {
  constexpr auto coefficient = c[i];
  if constexpr (i + 1 == sizeof(c) / sizeof(c[0])) {
    return hn::Set(d, coefficient);
  } else {
    return hn::MulAdd(PolynomialFrom<c, i + 1>(d, x), x, hn::Set(d, coefficient));
  }
}
template <const auto& c, class D, class V> HWY_INLINE V Polynomial(D d, V x) { return PolynomialFrom<c, 0>(d, x); }

template <class T> struct FloatFormat;
template <> struct FloatFormat<float> {
  static constexpr int mantissa_bits = 23;
  static constexpr float rounder = 12582912.0F; // 1.5 * 2^23: adding it rounds to an integer in the low bits
  static constexpr float bias = 127.0F;
  static constexpr float ln2_high = 6.93145752e-1F; // ln 2 with 9 trailing zero bits, so that n * ln2_high is exact
  static constexpr float ln2_low = 1.42860677e-6F;
  static constexpr float exp_least = -104.0F; // exp is 0 below
  static constexpr float exp_most = 89.0F;    // and infinite above
  // (exp(r) - 1 - r) / r^2 on |r| <= ln(2)/2, error 1.4e-9 (docs/numerics/coefficients.py)
  static constexpr float exp_tail[] = {0.50000000135F, 0.166666666817F, 0.0416664646F,
                                       0.00833331089F, 0.00139336859F,  0.000198910307F};
};
template <> struct FloatFormat<double> {
  static constexpr int mantissa_bits = 52;
  static constexpr double rounder = 6755399441055744.0; // 1.5 * 2^52
  static constexpr double bias = 1023.0;
  static constexpr double ln2_high = 6.93147180369123816490e-01;
  static constexpr double ln2_low = 1.90821492927058770002e-10;
  static constexpr double exp_least = -746.0;
  static constexpr double exp_most = 710.0;
  // error 1.4e-18
  static constexpr double exp_tail[] = {0.5,
                                        0.1666666666666667101,
                                        0.04166666666666666977,
                                        0.008333333333326112053,
                                        0.001388888888888373183,
                                        0.0001984126987490125923,
                                        0.00002480158732560532278,
                                        2.755725529796964439e-6,
                                        2.755727357010213967e-7,
                                        2.510525953844849342e-8,
                                        2.091471734171637595e-9};
};

/// 2^n for integral n in the range of normal numbers, from rounder + bias + n.
template <class D, class V> HWY_INLINE V PowerOfTwo(D d, V biased) {
  using Format = FloatFormat<LaneOf<D>>;
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(d, hn::ShiftLeft<Format::mantissa_bits>(hn::BitCast(du, biased)));
}

/// v * 2^n for integral n, rounded once, also where the result is subnormal or overflows.
template <class D, class V> HWY_INLINE V ScaleByPowerOfTwo(D d, V v, V n) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(V) == 64 && sizeof(LaneOf<D>) == 4) {
    return V{_mm512_scalef_ps(v.raw, n.raw)};
  } else if constexpr (sizeof(V) == 64) {
    return V{_mm512_scalef_pd(v.raw, n.raw)};
  }
#endif
  using Format = FloatFormat<LaneOf<D>>;
  const V rounder = hn::Set(d, Format::rounder);
  const V biased_rounder = hn::Set(d, Format::rounder + Format::bias);
  const V half = hn::Sub(hn::MulAdd(n, Constant(d, 0.5), rounder), rounder);
  const V first = PowerOfTwo(d, hn::Add(half, biased_rounder));
  const V second = PowerOfTwo(d, hn::Add(hn::Sub(n, half), biased_rounder));
  return hn::Mul(hn::Mul(v, first), second);
}

/// x = n ln 2 + r with integral n and |r| <= ln(2)/2; expm1 = exp(r) - 1.
template <class V> struct ReducedExp {
  V n;
  V expm1;
};
template <class D, class V> HWY_INLINE ReducedExp<V> ReduceExp(D d, V x) {
  using Format = FloatFormat<LaneOf<D>>;
  const V rounder = hn::Set(d, Format::rounder);
  const V n = hn::Sub(hn::MulAdd(x, Constant(d, 1.4426950408889634074), rounder), rounder);
  const V r = hn::NegMulAdd(n, hn::Set(d, Format::ln2_low), hn::NegMulAdd(n, hn::Set(d, Format::ln2_high), x));
  return {n, hn::MulAdd(hn::Mul(r, r), Polynomial<Format::exp_tail>(d, r), r)};
}

/// exp(x) for x in [exp_least, exp_most] or NaN.
template <class D, class V> HWY_INLINE V ExpInRange(D d, V x) {
  const ReducedExp<V> e = ReduceExp(d, x);
  return ScaleByPowerOfTwo(d, hn::Add(e.expm1, Constant(d, 1.0)), e.n);
}

/// x, or `most` where x is larger; a NaN stays.
template <class V> HWY_INLINE V AtMost(V x, V most) { return hn::IfThenElse(hn::Gt(x, most), most, x); }
template <class V> HWY_INLINE V AtLeast(V x, V least) { return hn::IfThenElse(hn::Lt(x, least), least, x); }

} // namespace detail

/// e^x: 0 for -inf, inf on overflow, subnormal results rounded once.
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V Exp(D d, V x) {
  using Format = detail::FloatFormat<LaneOf<D>>;
  return detail::ExpInRange(
      d, detail::AtMost(detail::AtLeast(x, hn::Set(d, Format::exp_least)), hn::Set(d, Format::exp_most)));
}

/// s = 1 / (1 + e^-x) and 1 - s, both without cancellation, from e^-|x|.
template <class V> struct Logistic {
  V s;
  V complement;
};
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED Logistic<V> LogisticPair(D d, V x) {
  using Format = detail::FloatFormat<LaneOf<D>>;
  const V one = detail::Constant(d, 1.0);
  const V a = detail::AtMost(hn::Abs(x), hn::Set(d, -Format::exp_least));
  const V e = detail::ExpInRange(d, hn::Neg(a));
  const V larger = hn::Div(one, hn::Add(one, e));
  const V smaller = hn::Mul(e, larger);
  const auto negative = hn::Lt(x, hn::Zero(d));
  return {hn::IfThenElse(negative, smaller, larger), hn::IfThenElse(negative, larger, smaller)};
}

/// 1 / (1 + e^-x)
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V Sigmoid(D d, V x) { return LogisticPair(d, x).s; }

/// tanh x = e / (e + 2) with e = exp(2|x|) - 1, so that small x lose nothing.
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V Tanh(D d, V x) {
  using Format = detail::FloatFormat<LaneOf<D>>;
  const V one = detail::Constant(d, 1.0);
  const V saturated = detail::Constant(d, 20.0);
  const V a = detail::AtMost(hn::Abs(x), saturated);
  const detail::ReducedExp<V> e = detail::ReduceExp(d, hn::Add(a, a));
  const V power = detail::PowerOfTwo(d, hn::Add(e.n, hn::Set(d, Format::rounder + Format::bias)));
  const V expm1 = hn::MulAdd(power, e.expm1, hn::Sub(power, one));
  return hn::CopySign(hn::Div(expm1, hn::Add(expm1, detail::Constant(d, 2.0))), x);
}

namespace detail {

template <class T> struct LogFormat;
// log(1+f) = f - f^2/2 + s (f^2/2 + R(s^2)), s = f / (2+f): the scheme and the coefficients of R are those of fdlibm's
// e_log.c and e_logf.c (Sun Microsystems, 1993).
template <> struct LogFormat<float> {
  static constexpr std::uint32_t one = 0x3F800000, root_half = 0x3F3504F3, mantissa = 0x007FFFFF;
  static constexpr std::uint32_t two_power = 0x4B000000; // 2^23: or-ing an integer in gives 2^23 + integer
  static constexpr float two_power_value = 8388608.0F;
  static constexpr float ln2_high = 6.9313812256e-01F, ln2_low = 9.0580006145e-06F;
  static constexpr float tail[] = {0.66666662693F, 0.40000972152F, 0.28498786688F, 0.24279078841F};
};
template <> struct LogFormat<double> {
  static constexpr std::uint64_t one = 0x3FF0000000000000, root_half = 0x3FE6A09E667F3BCD,
                                 mantissa = 0x000FFFFFFFFFFFFF;
  static constexpr std::uint64_t two_power = 0x4330000000000000;
  static constexpr double two_power_value = 4503599627370496.0;
  static constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
  static constexpr double tail[] = {6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
                                    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
                                    1.479819860511658591e-01};
};

} // namespace detail

/// ln x: -inf for 0, NaN below 0, inf for inf; subnormal x too.
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V Log(D d, V x) {
  using T = LaneOf<D>;
  using Format = detail::FloatFormat<T>;
  using LogFormat = detail::LogFormat<T>;
  const hn::RebindToUnsigned<D> du;
  const V infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  const auto subnormal = hn::Lt(x, hn::Set(d, std::numeric_limits<T>::min()));
  const V scaled = hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, LogFormat::two_power_value)), x);

  const auto root_half = hn::Set(du, LogFormat::root_half);
  const auto bits = hn::Add(hn::BitCast(du, scaled), hn::Set(du, LogFormat::one - LogFormat::root_half));
  const auto exponent = hn::Or(hn::ShiftRight<Format::mantissa_bits>(bits), hn::Set(du, LogFormat::two_power));
  const V offset =
      hn::IfThenElse(subnormal, hn::Set(d, LogFormat::two_power_value + Format::bias + T{Format::mantissa_bits}),
                     hn::Set(d, LogFormat::two_power_value + Format::bias));
  const V k = hn::Sub(hn::BitCast(d, exponent), offset);
  const V m = hn::BitCast(d, hn::Add(hn::And(bits, hn::Set(du, LogFormat::mantissa)), root_half));

  const V f = hn::Sub(m, detail::Constant(d, 1.0));
  const V s = hn::Div(f, hn::Add(f, detail::Constant(d, 2.0)));
  const V z = hn::Mul(s, s);
  const V tail = hn::Mul(z, detail::Polynomial<LogFormat::tail>(d, z));
  const V half_square = hn::Mul(detail::Constant(d, 0.5), hn::Mul(f, f));
  const V low = hn::MulAdd(k, hn::Set(d, LogFormat::ln2_low), hn::Mul(s, hn::Add(half_square, tail)));
  V y = hn::MulAdd(k, hn::Set(d, LogFormat::ln2_high), hn::Sub(f, hn::Sub(half_square, low)));
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), y, hn::Set(d, std::numeric_limits<T>::quiet_NaN()));
}

namespace detail {

// erfc(z) / 2 = exp(-z^2) t G(1 - t) with t = 1 / (1 + z/K): G is smooth on [0, 1], so one polynomial serves all z >= 0
// with a small relative error, and powers of 1 - t make it best near z = 0 (the mapping is that of Shepherd and
// Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", Math. Comp. 36, 1981; the coefficients are this
// project's: docs/numerics/coefficients.py).
template <class T> struct NormalFormat;
template <> struct NormalFormat<float> {
  static constexpr double pole = 2.5;
  static constexpr float most = 14.5F; // exp(-most^2 / 2) is 0
  static constexpr float g[] = {0.500000001F,  -0.910474147F, 0.804059326F,    -0.233498482F,  -0.133514268F,
                                0.0616232933F, 0.0487026297F, 2.50143158e-06F, -0.0405540714F, 0.0165104368F};
};
template <> struct NormalFormat<double> {
  static constexpr double pole = 2.5;
  static constexpr double most = 38.7;
  static constexpr double g[] = {
      0.4999999999999999992,   -0.9104739588693897684,   0.8040520822610191569,   -0.2333967052138994767,
      -0.1341701507157366504,  0.06356986850470826448,   0.04746394557666262222,  -0.007865343948653884027,
      -0.0185136392320153095,  -0.004819004243051227215, 0.001934281831272858569, 0.01420058123249013069,
      -0.03575790054842856642, 0.1078837021515351745,    -0.2615191910621693286,  0.5015923674074328945,
      -0.7765140859343556648,  0.9559226255916266607,    -0.9203901414559285656,  0.6774123569075775507,
      -0.3661290576418895802,  0.1359523147950081881,    -0.0307905231803217378,  0.003193492497713754807};
};

} // namespace detail

/// Standard normal distribution at x: cdf = Phi(x) = erfc(-x / sqrt 2) / 2 with a small relative error in both tails,
/// and bell = exp(-x^2 / 2); the density is bell / sqrt(2 pi).
template <class V> struct Normal {
  V cdf;
  V bell;
};
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED Normal<V> NormalCdf(D d, V x) {
  using T = LaneOf<D>;
  using Format = detail::NormalFormat<T>;
  const V one = detail::Constant(d, 1.0);
  const V a = detail::AtMost(hn::Abs(x), hn::Set(d, Format::most));
  const V square = hn::Mul(a, a);
  V bell = detail::ExpInRange(d, hn::Mul(square, detail::Constant(d, -0.5)));
  if constexpr (sizeof(T) == 8) { // what was rounded away in a^2
    bell = hn::NegMulAdd(bell, hn::Mul(detail::Constant(d, 0.5), hn::MulSub(a, a, square)), bell);
  }
  const V w = hn::Mul(a, detail::Constant(d, 0.70710678118654752440 / Format::pole));
  const V t = hn::Div(one, hn::Add(one, w));
  const V tail = hn::Mul(hn::Mul(bell, t), detail::Polynomial<Format::g>(d, hn::Mul(w, t)));
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)), bell};
}

} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
