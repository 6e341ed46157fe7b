// Defines vector forms of elementary functions and of activations built on them. Included by kernel files after
// core/simd/simd-inl.h, once per target. The functors work on double vectors to about 2 ULP; InDouble runs them for
// float vectors too, whose results are then the nearest floats in all but the closest of cases.

#if defined(EQUIGRAD_POINTWISE_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef EQUIGRAD_POINTWISE_MATH_INL_H
#undef EQUIGRAD_POINTWISE_MATH_INL_H
#else
#define EQUIGRAD_POINTWISE_MATH_INL_H
#endif

#include "core/ops/pointwise/kernels-inl.h"
#include "core/ops/pointwise/rounded-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {

/// The tag of doubles in which a kernel of tag D computes for floats of tag Narrow.
template <class D, class Narrow>
using DoublesOf =
    std::conditional_t<IsUnfused<D>::value, Unfused<hn::Rebind<double, Narrow>>, ForFloats<hn::Rebind<double, Narrow>>>;

#if HWY_TARGET != HWY_SCALAR
/// Two vectors of doubles as one of floats.
template <class D, class DD, class V> HWY_INLINE HWY_MAYBE_UNUSED hn::Vec<D> Narrowed(D d, DD dd, V low, V high) {
#if HWY_TARGET == HWY_EMU128 // DemoteTo would make the largest float of infinity here
  double wide[2 * hn::MaxLanes(dd)];
  float narrow[hn::MaxLanes(d)];
  hn::StoreU(low, dd, wide);
  hn::StoreU(high, dd, wide + hn::Lanes(dd));
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) narrow[lane] = static_cast<float>(wide[lane]);
  return hn::LoadU(d, narrow);
#else
  const hn::Half<D> half;
  return hn::Combine(d, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
#endif
}
#endif

/// F::value(d, x, p) on doubles: as it is for doubles, through them for floats. p: the op's attributes or nothing.
template <class F, class D, class V, class P> HWY_INLINE HWY_MAYBE_UNUSED V InDouble(D d, V x, P p) {
  if constexpr (sizeof(LaneOf<D>) == 8) {
    return F::value(d, x, p);
  } else {
#if HWY_TARGET == HWY_SCALAR
    const DoublesOf<D, D> dd;
    // DemoteTo would make the largest float of infinity here.
    return hn::Set(d, static_cast<float>(hn::GetLane(F::value(dd, hn::PromoteTo(dd, x), p.in(dd)))));
#else
    const hn::Half<D> half;
    const DoublesOf<D, decltype(half)> dd;
    const auto low = F::value(dd, hn::PromoteTo(dd, hn::LowerHalf(half, x)), p.in(dd));
    const auto high = F::value(dd, hn::PromoteTo(dd, hn::UpperHalf(half, x)), p.in(dd));
    return Narrowed(d, dd, low, high);
#endif
  }
}

/// -1, 0 or 1; a NaN stays.
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V Sign(D d, V x) {
  const V one = detail::Constant(d, 1.0);
  const V positive = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), one, x);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Neg(one), positive);
}

/// The integers below, above, towards zero: with the sign of x also where they are 0, which Highway's scalar target
/// forgets. (Names other than Highway's: argument-dependent lookup would find those.)
template <class V> HWY_INLINE HWY_MAYBE_UNUSED V RoundDown(V x) { return hn::CopySign(hn::Floor(x), x); }
template <class V> HWY_INLINE HWY_MAYBE_UNUSED V RoundUp(V x) { return hn::CopySign(hn::Ceil(x), x); }
template <class V> HWY_INLINE HWY_MAYBE_UNUSED V RoundToZero(V x) { return hn::CopySign(hn::Trunc(x), x); }

/// The nearest integer, halves to the even one: beyond 2^mantissa_bits floats are integers, so adding that much rounds.
/// (Highway's scalar Round makes 1 of the float before 1/2.)
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V RoundToEven(D d, V x) {
  const V whole = hn::Set(d, detail::LogFormat<LaneOf<D>>::two_power_value);
  const V a = hn::Abs(x);
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, whole), hn::Sub(hn::Add(a, whole), whole), a), x);
}

template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V Reciprocal(D d, V x) {
  return hn::Div(detail::Constant(d, 1.0), x);
}

/// e^x - 1. With x = n ln 2 + r it is 2 (2^(n-1) (e^r - 1) + 2^(n-1) - 1/2): halved, so that n = 1024 does not overflow
/// early.
struct Expm1 {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P) {
    using Format = detail::FloatFormat<LaneOf<D>>;
    const V half = detail::Constant(d, 0.5);
    const V a = detail::AtMost(detail::AtLeast(x, detail::Constant(d, -40.0)), hn::Set(d, Format::exp_most));
    const detail::ReducedExp<V> e = detail::ReduceExp(d, a);
    const V power = detail::PowerOfTwo(d, hn::Add(e.n, hn::Set(d, Format::rounder + Format::bias - 1)));
    const V y = MulAdd(d, power, e.expm1, hn::Sub(power, half));
    return hn::CopySign(hn::IfThenElse(hn::Eq(e.n, hn::Zero(d)), e.expm1, hn::Add(y, y)), x);
  }
};

/// ln(1 + x) = ln u + c / u, u = 1 + x as rounded and c what the rounding lost. For floats the loss matters near 1
/// alone, where x itself is what ln(1 + x) is a series of.
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V LogOnePlus(D d, V x) {
  const V one = detail::Constant(d, 1.0);
  const V u = hn::Add(x, one);
  if constexpr (IsForFloats<D>::value) {
    const detail::Binary<V> split = detail::SplitBinary(d, u);
    const auto near = hn::Eq(split.k, hn::Zero(d));
    const V y = detail::LogOfSplit(d, hn::IfThenElse(near, x, split.f));
    const V far = MulAdd(d, split.k, detail::Constant(d, 0.69314718055994530942), y);
    return detail::OrLogLimit(d, u, hn::IfThenElse(near, y, far)); // -0 stays
  } else {
    const V lost = hn::Sub(x, hn::Sub(u, one));
    const auto usual =
        hn::And(hn::Gt(u, hn::Zero(d)), hn::Lt(u, hn::Set(d, std::numeric_limits<LaneOf<D>>::infinity())));
    return hn::CopySign(hn::Add(Log(d, u), hn::IfThenElseZero(usual, hn::Div(lost, u))), x);
  }
}
struct Log1p {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P) { return LogOnePlus(d, x); }
};

/// x ln x; 0 for 0 and -0.
struct XLogX {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P) {
    return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Zero(d), hn::Mul(x, Log(d, x)));
  }
};

namespace detail {

/// e^z = m 2^n with m near 1: kept apart, so that a product with it is rounded once where e^z is subnormal.
template <class V> struct ExpParts {
  V m;
  V n;
};
/// For z in [-1000, 700] or NaN, and a small correction: e^(z + low).
template <class D, class V> HWY_INLINE ExpParts<V> SplitExp(D d, V z, V low) {
  const ReducedExp<V> e = ReduceExp(d, z);
  const V m = hn::Add(e.expm1, Constant(d, 1.0));
  return {MulAdd(d, m, low, m), e.n};
}

/// x / (1 + e^-z) for z = slope x, x and slope doubles.
template <class D, class V> HWY_INLINE V Swish(D d, V x, V slope) {
  const V one = Constant(d, 1.0);
  const V z = hn::Mul(slope, x);
  const V size = hn::Abs(z);
  const auto usual = hn::Lt(size, Constant(d, 800.0));
  const V lost = hn::IfThenElseZero(usual, ProductError(d, slope, x, z));
  const auto negative = hn::Lt(z, hn::Zero(d));
  const ExpParts<V> e =
      SplitExp(d, hn::Neg(AtMost(size, Constant(d, 800.0))), hn::IfThenElse(negative, lost, hn::Neg(lost)));
  const V denominator = hn::Add(one, ScaleByPowerOfTwo(d, e.m, e.n));
  const V left = ScaleByPowerOfTwo(d, hn::Div(hn::Mul(x, e.m), denominator), e.n);
  // e^-800 times a huge x would be no longer 0.
  const V tail = hn::IfThenElse(hn::Lt(z, Constant(d, -800.0)), hn::Neg(hn::Zero(d)), left);
  return hn::IfThenElse(negative, tail, hn::Div(x, denominator));
}

} // namespace detail

/// x sigmoid(1.702 x)
struct QuickGelu {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P) {
    return detail::Swish(d, x, detail::Constant(d, 1.702));
  }
};

/// ln(1 + e^-|x|) of doubles.
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V SoftTail(D d, V x) {
  if constexpr (IsForFloats<D>::value) {
    return detail::LogOnePlusPower(d, hn::Abs(x));
  } else {
    return LogOnePlus(d, Exp(d, hn::Neg(hn::Abs(x))));
  }
}

/// ln sigmoid(x) = min(x, 0) - ln(1 + e^-|x|)
struct LogSigmoid {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P) {
    return hn::Sub(detail::AtMost(x, hn::Zero(d)), SoftTail(d, x));
  }
};

/// ln sigmoid(x) and ln sigmoid(-x), which share a logarithm. Neither is the other and x: the smaller of them would be
/// lost to cancellation.
template <class V> struct LogSigmoids {
  V yes;
  V no;
};
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED LogSigmoids<V> LogSigmoidsOfDoubles(D d, V x) {
  const V tail = SoftTail(d, x);
  return {hn::Sub(detail::AtMost(x, hn::Zero(d)), tail), hn::Sub(detail::AtMost(hn::Neg(x), hn::Zero(d)), tail)};
}
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED LogSigmoids<V> LogSigmoidPair(D d, V x) {
#if HWY_TARGET == HWY_SCALAR
  const Parameters<D> none{d, nullptr};
  return {InDouble<LogSigmoid>(d, x, none), InDouble<LogSigmoid>(d, hn::Neg(x), none)};
#else
  if constexpr (sizeof(LaneOf<D>) == 8) {
    return LogSigmoidsOfDoubles(d, x);
  } else {
    const hn::Half<D> half;
    const DoublesOf<D, decltype(half)> dd;
    const auto low = LogSigmoidsOfDoubles(dd, hn::PromoteTo(dd, hn::LowerHalf(half, x)));
    const auto high = LogSigmoidsOfDoubles(dd, hn::PromoteTo(dd, hn::UpperHalf(half, x)));
    return {Narrowed(d, dd, low.yes, high.yes), Narrowed(d, dd, low.no, high.no)};
  }
#endif
}

/// -(t ln s(x) + (1 - t) ln s(-x))
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V LogitLoss(D d, V x, V t) {
  const LogSigmoids<V> l = LogSigmoidPair(d, x);
  return hn::Neg(hn::Add(hn::Mul(t, l.yes), hn::Mul(hn::Sub(detail::Constant(d, 1.0), t), l.no)));
}

/// x tanh(ln(1 + e^x)) = x e (e + 2) / (e (e + 2) + 2), e = e^x.
struct Mish {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P) {
    const V two = detail::Constant(d, 2.0);
    const V most = detail::Constant(d, 40.0);    // the quotient is 1 from there on
    const V least = detail::Constant(d, -800.0); // the value is 0 below
    const V z = detail::AtMost(detail::AtLeast(x, least), most);
    const detail::ExpParts<V> parts = detail::SplitExp(d, z, hn::Zero(d));
    const V e = detail::ScaleByPowerOfTwo(d, parts.m, parts.n);
    const V sum = hn::Add(e, two);
    const V quotient = hn::Div(sum, MulAdd(d, e, sum, two));
    const V y = detail::ScaleByPowerOfTwo(d, hn::Mul(hn::Mul(x, parts.m), quotient), parts.n);
    const V left = hn::IfThenElse(hn::Lt(x, least), hn::Neg(hn::Zero(d)), y);
    return hn::IfThenElse(hn::Gt(x, most), x, left);
  }
};

/// clamp(x + 3, 0, 6) / 6; a NaN stays.
template <class D, class V> HWY_INLINE HWY_MAYBE_UNUSED V HardSigmoid(D d, V x) {
  const V six = detail::Constant(d, 6.0);
  const V shifted = hn::Add(x, detail::Constant(d, 3.0));
  return hn::Div(detail::AtMost(detail::AtLeast(shifted, hn::Zero(d)), six), six);
}

/// x for x > 0, else p[0] (e^x - 1)
struct Elu {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P p) {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Mul(p[0], Expm1::value(d, x, p)));
  }
};

namespace detail {

/// ln(1 + e^-|z|) for z = beta x
template <class D, class V> HWY_INLINE V SoftCorner(D d, V beta, V x, V z) {
  const V size = hn::Abs(z);
  if constexpr (IsForFloats<D>::value) {
    return LogOnePlusPower(d, size);
  } else {
    const auto negative = hn::Lt(z, hn::Zero(d));
    // What z lost in rounding would be a large relative error of a small e^z.
    const auto usual = hn::Lt(size, Constant(d, 800.0));
    const V lost = hn::IfThenElseZero(usual, ProductError(d, beta, x, z));
    const ExpParts<V> parts =
        SplitExp(d, hn::Neg(AtMost(size, Constant(d, 800.0))), hn::IfThenElse(negative, lost, hn::Neg(lost)));
    return LogOnePlus(d, ScaleByPowerOfTwo(d, parts.m, parts.n));
  }
}

} // namespace detail

/// (max(z, 0) + ln(1 + e^-|z|)) / beta for z = beta x, x where z > threshold; beta = p[0], threshold = p[1].
struct Softplus {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P p) {
    const V z = hn::Mul(p[0], x);
    const V y = hn::Add(detail::AtLeast(z, hn::Zero(d)), detail::SoftCorner(d, p[0], x, z));
    return hn::IfThenElse(hn::Gt(z, p[1]), x, hn::Div(y, p[0]));
  }
};

/// The smaller, the larger of two; NaN beside a NaN.
template <class V> HWY_INLINE HWY_MAYBE_UNUSED V Smaller(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
}
template <class V> HWY_INLINE HWY_MAYBE_UNUSED V Larger(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
}

} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
