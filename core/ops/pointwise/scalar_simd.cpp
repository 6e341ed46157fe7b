// The vector kernels of the scalar tables for floats: vectors of doubles, and the C library's function for lanes
// outside of their range.

#include "core/ops/pointwise/scalar_kernels.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/pointwise/scalar_simd.cpp"
#include "core/simd/simd-inl.h"

#include "core/ops/pointwise/elementary-inl.h"
#include "core/ops/pointwise/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

using pointwise::Binary;
using pointwise::Unary;

#if HWY_TARGET == HWY_SCALAR // nothing is gained there
UnaryKernel<float> UnaryOf(Unary) { return nullptr; }
BinaryKernel<float> BinaryOf(Binary) { return nullptr; }
#else

using Doubles = hn::ScalableTag<double>;
using Floats = hn::Rebind<float, Doubles>;

/// Some neighbouring floats, the last ones of a row filled up with zeros.
HWY_INLINE hn::Vec<Floats> Load(const float* x, std::size_t count) {
  const Floats narrow;
  return count == hn::Lanes(narrow) ? hn::LoadU(narrow, x) : LoadUpTo(narrow, x, count);
}
HWY_INLINE void Store(hn::Vec<Floats> v, float* y, std::size_t count) {
  const Floats narrow;
  if (count == hn::Lanes(narrow))
    hn::StoreU(v, narrow, y);
  else
    StoreUpTo(v, narrow, y, count);
}

/// f(lane) for every lane below `count` that is not usual: the bits of the others must not depend on their neighbours.
template <class M, class F> void ForEachOther(M usual, std::int64_t count, const F& f) {
  HWY_ALIGN std::uint8_t bits[(hn::MaxLanes(Doubles()) + 7) / 8 + 8] = {};
  hn::StoreMaskBits(Doubles(), usual, bits);
  for (std::int64_t j = 0; j < count; ++j)
    if ((bits[j / 8] >> (j % 8) & 1) == 0) f(j);
}

template <class Op, Unary op>
HWY_INLINE void RunFloats(const float* x, float* y, std::size_t count, const double* values) {
  const Doubles d;
  const Floats narrow;
  const Parameters<Doubles> p{d, values};
  const auto from = Load(x, count);
  const auto v = hn::PromoteTo(d, from);
  Store(hn::DemoteTo(narrow, Op::value(d, v, p)), y, count);
  if constexpr (!Op::every_lane) {
    const auto usual = Op::usual(d, v, p);
    if (HWY_LIKELY(hn::AllTrue(d, usual))) return;
    HWY_ALIGN float kept[hn::MaxLanes(narrow)]; // y may be x
    hn::Store(from, narrow, kept);
    ForEachOther(usual, static_cast<std::int64_t>(count),
                 [&](std::int64_t j) { pointwise::library_kernel(op)(kept + j, y + j, 1, values); });
  }
}

template <class Op, Unary op> void RunUnaryFloats(const float* x, float* y, std::int64_t n, const double* values) {
  const std::size_t all = hn::Lanes(Doubles());
  const auto lanes = static_cast<std::int64_t>(all);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) RunFloats<Op, op>(x + i, y + i, all, values);
  if (i < n) RunFloats<Op, op>(x + i, y + i, static_cast<std::size_t>(n - i), values);
}

/// The kernel of an exponent that is one of these, counted in halves; null for others.
template <int... halves> UnaryKernel<float> KnownPower(double exponent, std::integer_sequence<int, halves...>) {
  UnaryKernel<float> kernel = nullptr;
  ((exponent * 2.0 == halves ? void(kernel = RunUnaryFloats<PowOfFloat<halves>, Unary::pow_scalar>) : void()), ...);
  return kernel;
}

void RunPowers(const float* x, float* y, std::int64_t n, const double* values) {
  const UnaryKernel<float> known = KnownPower(values[0], std::integer_sequence<int, -4, -2, -1, 1, 2, 4, 6, 8>());
  (known != nullptr ? known : RunUnaryFloats<PowScalarOfFloat, Unary::pow_scalar>)(x, y, n, values);
}

template <class Op, Binary op>
void RunBinaryFloats(const float* a, const float* b, float* y, std::int64_t n, Steps steps) {
  const Doubles d;
  const Floats narrow;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const bool step_a = steps != Steps::second, step_b = steps != Steps::first;
  if (n == 0) return;
  const auto repeated_a = hn::Set(narrow, *a), repeated_b = hn::Set(narrow, *b);
  for (std::int64_t i = 0; i < n; i += lanes) {
    const std::int64_t count = std::min(lanes, n - i);
    const auto from_a = step_a ? Load(a + i, static_cast<std::size_t>(count)) : repeated_a;
    const auto from_b = step_b ? Load(b + i, static_cast<std::size_t>(count)) : repeated_b;
    const auto v = hn::PromoteTo(d, from_a), w = hn::PromoteTo(d, from_b);
    Store(hn::DemoteTo(narrow, Op::value(d, v, w)), y + i, static_cast<std::size_t>(count));
    if constexpr (!Op::every_lane) {
      const auto usual = Op::usual(d, v, w);
      if (HWY_LIKELY(hn::AllTrue(d, usual))) continue;
      HWY_ALIGN float kept_a[hn::MaxLanes(narrow)];
      HWY_ALIGN float kept_b[hn::MaxLanes(narrow)];
      hn::Store(from_a, narrow, kept_a);
      hn::Store(from_b, narrow, kept_b);
      ForEachOther(usual, count, [&](std::int64_t j) {
        pointwise::library_kernel(op)(kept_a + j, kept_b + j, y + i + j, 1, Steps::both);
      });
    }
  }
}

UnaryKernel<float> UnaryOf(Unary op) {
  switch (op) {
  case Unary::exp2:
    return RunUnaryFloats<Exp2OfFloat, Unary::exp2>;
  case Unary::log2:
    return RunUnaryFloats<Log2OfFloat, Unary::log2>;
  case Unary::sin:
    return RunUnaryFloats<SinOfFloat, Unary::sin>;
  case Unary::cos:
    return RunUnaryFloats<CosOfFloat, Unary::cos>;
  case Unary::tan:
    return RunUnaryFloats<TanOfFloat, Unary::tan>;
  case Unary::atan:
    return RunUnaryFloats<AtanOfFloat, Unary::atan>;
  case Unary::erf:
    return RunUnaryFloats<ErfOfFloat, Unary::erf>;
  case Unary::erfc:
    return RunUnaryFloats<ErfcOfFloat, Unary::erfc>;
  case Unary::pow_scalar:
    return RunPowers;
  default:
    return nullptr;
  }
}

BinaryKernel<float> BinaryOf(Binary op) {
  switch (op) {
  case Binary::fmod:
    return RunBinaryFloats<FmodOfFloats, Binary::fmod>;
  case Binary::remainder:
    return RunBinaryFloats<RemainderOfFloats, Binary::remainder>;
  case Binary::pow:
    return RunBinaryFloats<PowOfFloats, Binary::pow>;
  default:
    return nullptr;
  }
}
#endif

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {
HWY_EXPORT(UnaryOf);
HWY_EXPORT(BinaryOf);

pointwise::UnaryKernel<float> pointwise::vector_kernel(Unary op) { return HWY_DYNAMIC_DISPATCH(UnaryOf)(op); }
pointwise::BinaryKernel<float> pointwise::vector_kernel(Binary op) { return HWY_DYNAMIC_DISPATCH(BinaryOf)(op); }

} // namespace eg
#endif
