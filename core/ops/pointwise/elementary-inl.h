// Defines vector forms of the functions in the scalar tables, for arguments and results that are floats. Included by
// kernel files after core/simd/simd-inl.h, once per target.
//
// Each works on double vectors whose lanes hold floats, to a relative error below 2^-40: the result is then the nearest
// float in all but the closest of cases. Where not every lane is right, `usual` marks those that are; the others are
// left to a scalar function.

#if defined(EQUIGRAD_POINTWISE_ELEMENTARY_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef EQUIGRAD_POINTWISE_ELEMENTARY_INL_H
#undef EQUIGRAD_POINTWISE_ELEMENTARY_INL_H
#else
#define EQUIGRAD_POINTWISE_ELEMENTARY_INL_H
#endif

#include "core/ops/pointwise/rounded-inl.h"

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace detail {

/// All lanes are right.
struct EveryLane {
  static constexpr bool every_lane = true;
};
struct SomeLanes {
  static constexpr bool every_lane = false;
};

template <class D, class V> HWY_INLINE V BinaryLog(D d, V x) {
  const Binary<V> split = SplitBinary(d, x);
  return OrLogLimit(d, x, MulAdd(d, LogOfSplit(d, split.f), Constant(d, 1.4426950408889634074), split.k));
}

/// x = n pi/2 + r with integral n and |r| <= pi/4; the low bits of `quarters` are those of n.
template <class D, class V> struct Turned {
  V r;
  hn::Vec<hn::RebindToUnsigned<D>> quarters;
};

/// For |x| below 2^20: pi/2 is two numbers of 33 bits, whose products with n are exact, and a rest.
template <class D, class V> HWY_INLINE Turned<D, V> Turn(D d, V x) {
  const V rounder = hn::Set(d, FloatFormat<double>::rounder);
  const V shifted = MulAdd(d, x, Constant(d, 0.63661977236758134308), rounder);
  const V n = hn::Sub(shifted, rounder);
  V r = NegMulAdd(d, n, Constant(d, 0x1.921fb544p+0), x);
  r = NegMulAdd(d, n, Constant(d, 0x1.0b4611a6p-34), r);
  r = NegMulAdd(d, n, Constant(d, 0x1.3198a2e037073p-69), r);
  return {r, hn::BitCast(hn::RebindToUnsigned<D>(), shifted)};
}

template <class D, class V> struct SineCosine { V sine, cosine; };

template <class D, class V> HWY_INLINE SineCosine<D, V> OfEighthTurn(D d, V r) {
  const V z = hn::Mul(r, r);
  return {hn::Mul(r, Polynomial<simd::RoundedFormat::sine>(d, z)), Polynomial<simd::RoundedFormat::cosine>(d, z)};
}

struct BelowTwoTo20 : SomeLanes {
  template <class D, class V, class P> static HWY_INLINE hn::Mask<D> usual(D d, V x, P) {
    return hn::Not(hn::Ge(hn::Abs(x), Constant(d, 1048576.0))); // NaN is right
  }
};

/// sin(x + ahead pi/2)
template <int ahead, class D, class V> HWY_INLINE V Sine(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const Turned<D, V> turned = Turn(d, x);
  const SineCosine<D, V> of = OfEighthTurn(d, turned.r);
  const auto quarters = hn::Add(turned.quarters, hn::Set(du, std::uint64_t{ahead}));
  const auto odd = hn::RebindMask(d, hn::TestBit(quarters, hn::Set(du, std::uint64_t{1})));
  const auto sign = hn::ShiftLeft<62>(hn::And(quarters, hn::Set(du, std::uint64_t{2})));
  return hn::BitCast(d, hn::Xor(hn::BitCast(du, hn::IfThenElse(odd, of.cosine, of.sine)), sign));
}

/// erfc x = 2 Phi(-sqrt(2) x)
template <class D, class V> HWY_INLINE V ComplementaryError(D d, V x) {
  const V tail = NormalCdf(d, hn::Mul(x, Constant(d, -1.41421356237309504880))).cdf;
  return hn::Add(tail, tail);
}

} // namespace detail

struct Exp2OfFloat : detail::EveryLane {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P) { return detail::FloatPowerOfTwo(d, x); }
};
struct Log2OfFloat : detail::EveryLane {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P) { return detail::BinaryLog(d, x); }
};
struct SinOfFloat : detail::BelowTwoTo20 {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P) { return detail::Sine<0>(d, x); }
};
struct CosOfFloat : detail::BelowTwoTo20 {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P) { return detail::Sine<1>(d, x); }
};

/// tan x = s / c, or -c / s after an odd number of quarter turns.
struct TanOfFloat : detail::BelowTwoTo20 {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P) {
    const hn::RebindToUnsigned<D> du;
    const detail::Turned<D, V> turned = detail::Turn(d, x);
    const detail::SineCosine<D, V> of = detail::OfEighthTurn(d, turned.r);
    const auto odd = hn::RebindMask(d, hn::TestBit(turned.quarters, hn::Set(du, std::uint64_t{1})));
    return hn::Div(hn::IfThenElse(odd, hn::Neg(of.cosine), of.sine), hn::IfThenElse(odd, of.sine, of.cosine));
  }
};

/// atan x, reduced by atan a = pi/4 + atan((a - 1) / (a + 1)) and atan a = pi/2 - atan(1/a).
struct AtanOfFloat : detail::EveryLane {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P) {
    const V one = detail::Constant(d, 1.0);
    const V a = hn::Abs(x);
    const auto middle = hn::Gt(a, detail::Constant(d, 0.41421356237309504880));
    const auto large = hn::Gt(a, detail::Constant(d, 2.41421356237309504880));
    const V above = hn::IfThenElse(large, hn::Neg(one), hn::IfThenElse(middle, hn::Sub(a, one), a));
    const V below = hn::IfThenElse(large, a, hn::IfThenElse(middle, hn::Add(a, one), one));
    const V offset = hn::IfThenElse(large, detail::Constant(d, 1.57079632679489661923),
                                    hn::IfThenElseZero(middle, detail::Constant(d, 0.78539816339744830962)));
    const V u = hn::Div(above, below);
    const V angle = hn::Mul(u, detail::Polynomial<simd::RoundedFormat::arctangent>(d, hn::Mul(u, u)));
    return hn::CopySign(hn::Add(offset, angle), x);
  }
};

struct ErfOfFloat : detail::EveryLane {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P) {
    using Format = simd::RoundedFormat;
    const V most = detail::Constant(d, Format::error_function_most);
    const V held = detail::AtMost(detail::AtLeast(x, hn::Neg(most)), most);
    const V centred = MulAdd(d, held, held, detail::Constant(d, -Format::error_function_centre));
    return hn::Mul(held, detail::PairedPolynomial<Format::error_function>(d, centred));
  }
};
struct ErfcOfFloat : detail::EveryLane {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P) {
    return detail::ComplementaryError(d, x);
  }
};

/// x^y = 2^(y log2 |x|), with the signs and special cases of C's Annex F.
struct PowOfFloats : detail::EveryLane {
  template <class D, class V> static HWY_INLINE V value(D d, V x, V y) {
    const V one = detail::Constant(d, 1.0);
    const V size = detail::FloatPowerOfTwo(d, hn::Mul(y, detail::BinaryLog(d, hn::Abs(x))));
    const auto whole = hn::Eq(hn::Floor(y), y);
    const V half = hn::Mul(y, detail::Constant(d, 0.5));
    const auto odd = hn::AndNot(hn::Eq(hn::Floor(half), half), whole);
    const V infinity = hn::Set(d, std::numeric_limits<double>::infinity());
    const auto undefined = hn::AndNot(whole, hn::And(hn::Lt(x, hn::Zero(d)), hn::Gt(x, hn::Neg(infinity))));
    V power = hn::IfThenElse(odd, hn::CopySign(size, x), size);
    power = hn::IfThenElse(undefined, hn::Set(d, std::numeric_limits<double>::quiet_NaN()), power);
    const auto unit = hn::And(hn::Eq(x, hn::Neg(one)), hn::Eq(hn::Abs(y), infinity));
    return hn::IfThenElse(hn::Or(hn::Or(hn::Eq(x, one), hn::Eq(y, hn::Zero(d))), unit), one, power);
  }
};

/// x^exponent, by products for whole exponents up to 32.
struct PowScalarOfFloat : detail::EveryLane {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P p) {
    const double exponent = p.values[0];
    if (const double size = std::abs(exponent); size <= 32.0 && std::floor(size) == size) {
      V power = detail::Constant(d, 1.0), square = x;
      for (auto rest = static_cast<unsigned>(size); rest != 0; rest >>= 1) {
        if ((rest & 1U) != 0) power = hn::Mul(power, square);
        if (rest > 1) square = hn::Mul(square, square);
      }
      return exponent < 0.0 ? hn::Div(detail::Constant(d, 1.0), power) : power;
    }
    return PowOfFloats::value(d, x, hn::Set(d, exponent));
  }
};

/// x^(halves / 2), for an exponent that the compiler knows.
template <int halves> struct PowOfFloat : detail::EveryLane {
  template <class D, class V, class P> static HWY_INLINE V value(D d, V x, P p) {
    if constexpr (halves < 0) {
      return hn::Div(detail::Constant(d, 1.0), PowOfFloat<-halves>::value(d, x, p));
    } else if constexpr (halves == 1) { // unlike the root, a power is never -0, and infinite for both infinities
      const V infinity = hn::Set(d, std::numeric_limits<double>::infinity());
      return hn::IfThenElse(hn::Eq(x, hn::Neg(infinity)), infinity, hn::Sqrt(hn::Add(x, hn::Zero(d))));
    } else if constexpr (halves == 2) {
      return x;
    } else {
      return hn::Mul(PowOfFloat<halves - 2>::value(d, x, p), x);
    }
  }
};

namespace detail {

/// Quotients below 2^29 times a float are exact in double, so remainders are.
struct SmallQuotient : SomeLanes {
  template <class D, class V> static HWY_INLINE hn::Mask<D> usual(D d, V a, V b) {
    const auto finite = hn::Lt(hn::Abs(b), hn::Set(d, std::numeric_limits<double>::infinity()));
    return hn::And(finite, hn::Lt(hn::Abs(hn::Div(a, b)), Constant(d, 536870912.0)));
  }
};

/// a - trunc(a / b) b: the rounded quotient may be one too large.
template <class D, class V> HWY_INLINE V Remainder(D d, V a, V b) {
  const V size = hn::Abs(a), step = hn::Abs(b);
  V r = NegMulAdd(d, hn::Floor(hn::Div(size, step)), step, size);
  r = hn::IfThenElse(hn::Lt(r, hn::Zero(d)), hn::Add(r, step), r);
  return hn::CopySign(r, a);
}

} // namespace detail

struct FmodOfFloats : detail::SmallQuotient {
  template <class D, class V> static HWY_INLINE V value(D d, V a, V b) { return detail::Remainder(d, a, b); }
};
struct RemainderOfFloats : detail::SmallQuotient {
  template <class D, class V> static HWY_INLINE V value(D d, V a, V b) {
    const V r = detail::Remainder(d, a, b);
    const auto apart = hn::And(hn::Ne(r, hn::Zero(d)), hn::Lt(hn::Mul(r, b), hn::Zero(d)));
    return hn::IfThenElse(apart, hn::Add(r, b), r);
  }
};

} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
