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
// Few targets keep binaries small: baseline, AVX2, AVX3 (AVX-512 F/BW/DQ/VL); NEON. On SVE's header GCC 12 crashes.
#ifndef EQUIGRAD_UNUSED_TARGETS // what a sanitized build cannot run (scripts/cmake/equigrad_room.cmake)
#define EQUIGRAD_UNUSED_TARGETS 0
#endif
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS                                                                                           \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | EQUIGRAD_UNUSED_TARGETS)
#endif
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#endif

#include "core/reduction.h"
#include "core/simd/coefficients.h"

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

/// The first `count` lanes from p, zeros above; count in [0, lanes]. Reads no further than p[count - 1], but in
/// WebAssembly, where code size counts and all memory is one array.
template <class D> HWY_INLINE HWY_MAYBE_UNUSED hn::Vec<D> LoadUpTo(D d, const LaneOf<D>* p, std::size_t count) {
#if HWY_TARGET == HWY_SCALAR || HWY_ARCH_WASM || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2)
  return hn::MaskedLoad(hn::FirstN(d, count), d, p);
#else // without masks in memory, as on NEON, Highway reads the whole vector
  HWY_ALIGN LaneOf<D> lanes[hn::MaxLanes(d)] = {};
  for (std::size_t i = 0; i < count; ++i) lanes[i] = p[i];
  return hn::Load(d, lanes);
#endif
}

/// Writes the first `count` lanes of v to p, and touches no memory behind them: another thread may write there.
/// (WebAssembly has one thread.)
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED void StoreUpTo(V v, D d, LaneOf<D>* p, std::size_t count) {
#if HWY_TARGET == HWY_SCALAR || HWY_ARCH_WASM || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2)
  hn::BlendedStore(v, hn::FirstN(d, count), d, p);
#else // there Highway reads the whole vector, and writes back what it read
  HWY_ALIGN LaneOf<D> lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  for (std::size_t i = 0; i < count; ++i) p[i] = lanes[i];
#endif
}

/// The tag of exact mode: products are rounded before they are added, so that the bits are those of any processor.
template <class D> struct Unfused : D {};
template <class D> struct IsUnfused : std::false_type {};
template <class D> struct IsUnfused<Unfused<D>> : std::true_type {};

/// The tag of kernels that `reduction` selects.
template <class T, Reduction reduction>
using TagOf = std::conditional_t<reduction == Reduction::exact, Unfused<hn::ScalableTag<T>>, hn::ScalableTag<T>>;
/// Another tag, with the rounding of D.
template <class D, class Other> using RoundedAs = std::conditional_t<IsUnfused<D>::value, Unfused<Other>, Other>;

/// a b + c: rounded once where the target has fused products and the tag allows them.
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V MulAdd(D, V a, V b, V c) {
  if constexpr (IsUnfused<D>::value) {
    return hn::Add(hn::Mul(a, b), c);
  } else {
    return hn::MulAdd(a, b, c);
  }
}
/// c - a b, alike.
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V NegMulAdd(D, V a, V b, V c) {
  if constexpr (IsUnfused<D>::value) {
    return hn::Sub(c, hn::Mul(a, b));
  } else {
    return hn::NegMulAdd(a, b, c);
  }
}

namespace detail {

template <class D> HWY_INLINE hn::Vec<D> Constant(D d, double value) {
  return hn::Set(d, static_cast<LaneOf<D>>(value));
}

/// sum_i c[i + k step] x^k; the coefficients are template arguments, so that device code sees them as constants.
template <const auto& c, std::size_t i, std::size_t step, class D, class V> HWY_INLINE V PolynomialFrom(D d, V x) {
  constexpr auto coefficient = c[i];
  if constexpr (i + step >= sizeof(c) / sizeof(c[0])) {
    return hn::Set(d, coefficient);
  } else {
    return MulAdd(d, PolynomialFrom<c, i + step, step>(d, x), x, hn::Set(d, coefficient));
  }
}
/// sum_i c[i] x^i
template <const auto& c, class D, class V> HWY_INLINE V Polynomial(D d, V x) { return PolynomialFrom<c, 0, 1>(d, x); }
/// The same, as the sum of its even and its odd powers: half as many steps wait for the one before.
template <const auto& c, class D, class V> HWY_INLINE V PairedPolynomial(D d, V x) {
  const V square = hn::Mul(x, x);
  return MulAdd(d, PolynomialFrom<c, 1, 2>(d, square), x, PolynomialFrom<c, 0, 2>(d, square));
}

using simd::FloatFormat;
using simd::LogFormat;
using simd::NormalFormat;

/// a b - product, for product = a b rounded.
template <class D, class V> HWY_INLINE V ProductError([[maybe_unused]] D d, V a, V b, V product) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SSE2
  constexpr bool fused = false;
#else
  constexpr bool fused = !IsUnfused<D>::value;
#endif
  if constexpr (fused) {
    return hn::MulSub(a, b, product);
  } else { // Dekker: the halves of a and b have 26 bits, so their products are exact
    const V splitter = Constant(d, sizeof(LaneOf<D>) == 8 ? 134217729.0 : 4097.0); // 2^27 + 1, 2^12 + 1
    const V wide_a = hn::Mul(a, splitter);
    const V high_a = hn::Sub(wide_a, hn::Sub(wide_a, a));
    const V low_a = hn::Sub(a, high_a);
    const V wide_b = hn::Mul(b, splitter);
    const V high_b = hn::Sub(wide_b, hn::Sub(wide_b, b));
    const V low_b = hn::Sub(b, high_b);
    const V rest =
        hn::Sub(hn::Sub(hn::Sub(product, hn::Mul(high_a, high_b)), hn::Mul(low_a, high_b)), hn::Mul(high_a, low_b));
    return hn::Sub(hn::Mul(low_a, low_b), rest);
  }
}

/// 2^n for integral n in the range of normal numbers, from rounder + bias + n.
template <class D, class V> HWY_INLINE V PowerOfTwo(D d, V biased) {
  using Format = FloatFormat<LaneOf<D>>;
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(d, hn::ShiftLeft<Format::mantissa_bits>(hn::BitCast(du, biased)));
}

/// v * 2^n for integral n, rounded once, also where the result is subnormal or overflows.
template <class D, class V> HWY_INLINE V ScaleByPowerOfTwo(D d, V v, V n) {
#if HWY_TARGET == HWY_AVX3 // it would round once where the products below round twice: v subnormal, or far from 1
  if constexpr (IsUnfused<D>::value) {
  } else if constexpr (sizeof(V) == 64 && sizeof(LaneOf<D>) == 4) {
    return V{_mm512_scalef_ps(v.raw, n.raw)};
  } else if constexpr (sizeof(V) == 64) {
    return V{_mm512_scalef_pd(v.raw, n.raw)};
  }
#endif
  using Format = FloatFormat<LaneOf<D>>;
  const V rounder = hn::Set(d, Format::rounder);
  const V biased_rounder = hn::Set(d, Format::rounder + Format::bias);
  const V half = hn::Sub(MulAdd(d, n, Constant(d, 0.5), rounder), rounder);
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
  const V n = hn::Sub(MulAdd(d, x, Constant(d, 1.4426950408889634074), rounder), rounder);
  const V r = NegMulAdd(d, n, hn::Set(d, Format::ln2_low), NegMulAdd(d, n, hn::Set(d, Format::ln2_high), x));
  return {n, MulAdd(d, hn::Mul(r, r), Polynomial<Format::exp_tail>(d, r), r)};
}

/// exp(x) for x in [exp_least, exp_most] or NaN.
template <class D, class V> HWY_INLINE V ExpInRange(D d, V x) {
  const ReducedExp<V> e = ReduceExp(d, x);
  return ScaleByPowerOfTwo(d, hn::Add(e.expm1, Constant(d, 1.0)), e.n);
}

/// x, or `most` where x is larger; a NaN stays. The instructions of x86 give the second operand beside a NaN, and of
/// two equal ones.
template <class V> HWY_INLINE V AtMost(V x, V most) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  return hn::Min(most, x);
#else
  return hn::IfThenElse(hn::Gt(x, most), most, x);
#endif
}
template <class V> HWY_INLINE V AtLeast(V x, V least) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  return hn::Max(least, x);
#else
  return hn::IfThenElse(hn::Lt(x, least), least, x);
#endif
}

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
  const V expm1 = MulAdd(d, power, e.expm1, hn::Sub(power, one));
  return hn::CopySign(hn::Div(expm1, hn::Add(expm1, detail::Constant(d, 2.0))), x);
}

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
  const V low = MulAdd(d, k, hn::Set(d, LogFormat::ln2_low), hn::Mul(s, hn::Add(half_square, tail)));
  V y = MulAdd(d, k, hn::Set(d, LogFormat::ln2_high), hn::Sub(f, hn::Sub(half_square, low)));
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), y, hn::Set(d, std::numeric_limits<T>::quiet_NaN()));
}

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
    bell = NegMulAdd(d, bell, hn::Mul(detail::Constant(d, 0.5), detail::ProductError(d, a, a, square)), bell);
  }
  const V w = hn::Mul(a, detail::Constant(d, 0.70710678118654752440 / Format::pole));
  const V t = hn::Div(one, hn::Add(one, w));
  const V tail = hn::Mul(hn::Mul(bell, t), detail::Polynomial<Format::g>(d, hn::Mul(w, t)));
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)), bell};
}

} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
