#include "core/ops/reduce/rows.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/reduce/rows_simd.cpp"
#include "core/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

/// As many elements as a vector of doubles has lanes, as doubles.
template <class D, class T> HWY_INLINE hn::Vec<D> LoadWide(D d, const T* x) {
  if constexpr (sizeof(T) == 8) {
    return hn::LoadU(d, x);
  } else {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>{}, x));
  }
}
/// The first `count` of them, zeros above.
template <class D, class T> HWY_INLINE hn::Vec<D> LoadWideUpTo(D d, const T* x, std::size_t count) {
  if constexpr (sizeof(T) == 8) {
    return LoadUpTo(d, x, count);
  } else {
    return hn::PromoteTo(d, LoadUpTo(hn::Rebind<float, D>{}, x, count));
  }
}

template <bool largest, class V> HWY_INLINE V Better(V a, V b) {
  if constexpr (largest) {
    return hn::Max(a, b);
  } else {
    return hn::Min(a, b);
  }
}

/// Right unless there is a NaN; `unordered` says so.
template <bool largest, class T> T ExtremeOfNumbers(const T* x, std::int64_t n, bool& unordered) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T worst = largest ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
  auto m0 = hn::Set(d, worst), m1 = m0, m2 = m0, m3 = m0;
  auto nan = hn::IsNaN(m0);
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto v0 = hn::LoadU(d, x + i), v1 = hn::LoadU(d, x + i + lanes);
    const auto v2 = hn::LoadU(d, x + i + 2 * lanes), v3 = hn::LoadU(d, x + i + 3 * lanes);
    m0 = Better<largest>(m0, v0);
    m1 = Better<largest>(m1, v1);
    m2 = Better<largest>(m2, v2);
    m3 = Better<largest>(m3, v3);
    nan = hn::Or(nan, hn::Or(hn::Or(hn::IsNaN(v0), hn::IsNaN(v1)), hn::Or(hn::IsNaN(v2), hn::IsNaN(v3))));
  }
  for (; i < n; i += lanes) {
    const auto count = static_cast<std::size_t>(std::min(lanes, n - i));
    const auto v = hn::IfThenElse(hn::FirstN(d, count), LoadUpTo(d, x + i, count), hn::Set(d, worst));
    m0 = Better<largest>(m0, v);
    nan = hn::Or(nan, hn::IsNaN(v));
  }
  unordered = !hn::AllFalse(d, nan);
  const auto best = Better<largest>(Better<largest>(m0, m1), Better<largest>(m2, m3));
  return largest ? LaneMax(d, best) : LaneMin(d, best);
}

template <class T> T RowExtreme(const T* x, std::int64_t n, bool largest) {
  bool unordered = false;
  const T best = largest ? ExtremeOfNumbers<true>(x, n, unordered) : ExtremeOfNumbers<false>(x, n, unordered);
  if (!unordered) return best;
  return *std::find_if(x, x + n, [](T value) { return std::isnan(value); });
}

/// Two accumulators, since a vector of exponentials has enough to overlap within itself.
template <class T> double ExpSumBlock(const T* x, std::int64_t n, double shift) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto offset = hn::Set(d, shift);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    s0 = hn::Add(s0, Exp(d, hn::Sub(LoadWide(d, x + i), offset)));
    s1 = hn::Add(s1, Exp(d, hn::Sub(LoadWide(d, x + i + lanes), offset)));
  }
  for (; i < n; i += lanes) {
    const auto count = static_cast<std::size_t>(std::min(lanes, n - i));
    const auto e = Exp(d, hn::Sub(LoadWideUpTo(d, x + i, count), offset));
    s0 = hn::Add(s0, hn::IfThenElseZero(hn::FirstN(d, count), e));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
}

template <class T> double RowExpSum(const T* x, std::int64_t n, double shift) {
  constexpr std::int64_t block = 4096;
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; i += block) sum += ExpSumBlock(x + i, std::min(block, n - i), shift);
  return sum;
}

constexpr std::uint64_t exponent_bits = 0x7FF0000000000000;
constexpr std::uint64_t exponent_of_one = 0x3FF0000000000000;

/// Takes the powers of two out of v, which is then in [1, 2) with its sign, and adds them to `exponent`.
template <class D, class V, class U> HWY_INLINE void TakePowers(D d, V& v, U& exponent) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto field = hn::And(bits, hn::Set(du, exponent_bits));
  exponent = hn::Add(exponent, hn::Sub(hn::ShiftRight<52>(field), hn::Set(du, std::uint64_t{1023})));
  v = hn::BitCast(d, hn::Or(hn::Xor(bits, field), hn::Set(du, exponent_of_one)));
}

/// Product of the lanes.
template <class D, class V, class U> reduce::RowProduct JoinLanes(D d, V mantissa, U exponent) {
  const hn::RebindToUnsigned<D> du;
  double m[hn::MaxLanes(d)];
  std::uint64_t e[hn::MaxLanes(d)];
  hn::StoreU(mantissa, d, m);
  hn::StoreU(exponent, du, e);
  reduce::RowProduct product;
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) {
    int shift = 0;
    product.mantissa = 2.0 * std::frexp(product.mantissa * m[lane], &shift);
    product.exponent += static_cast<std::int64_t>(e[lane]) + shift - 1;
  }
  return product;
}

template <class T> reduce::RowProduct RowProductOf(const T* x, std::int64_t n) {
  const hn::ScalableTag<double> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto one = hn::Set(d, 1.0);
  const auto least = hn::Set(d, std::numeric_limits<double>::min());
  const auto most = hn::Set(d, std::numeric_limits<double>::max());
  auto product = one;
  auto exponent = hn::Zero(du);
  auto normal = hn::Eq(one, one);
  constexpr std::int64_t factors = 512; // each less than 2: their product is far from overflow
  for (std::int64_t first = 0; first < n; first += factors * lanes) {
    const std::int64_t end = std::min(n, first + factors * lanes);
    for (std::int64_t i = first; i < end; i += lanes) {
      auto v = one;
      if (i + lanes <= end) {
        v = LoadWide(d, x + i);
      } else {
        const auto count = static_cast<std::size_t>(end - i);
        v = hn::IfThenElse(hn::FirstN(d, count), LoadWideUpTo(d, x + i, count), one);
      }
      const auto size = hn::Abs(v);
      normal = hn::And(normal, hn::And(hn::Ge(size, least), hn::Le(size, most)));
      TakePowers(d, v, exponent);
      product = hn::Mul(product, v);
    }
    TakePowers(d, product, exponent);
  }
  reduce::RowProduct joined = JoinLanes(d, product, exponent);
  joined.normal = hn::AllTrue(d, normal);
  return joined;
}

#define EG_ROW_KERNELS(SUFFIX, T)                                                                                      \
  T RowExtreme##SUFFIX(const T* x, std::int64_t n, bool largest) { return RowExtreme(x, n, largest); }                 \
  double RowExpSum##SUFFIX(const T* x, std::int64_t n, double shift) { return RowExpSum(x, n, shift); }                \
  reduce::RowProduct RowProduct##SUFFIX(const T* x, std::int64_t n) { return RowProductOf(x, n); }
EG_ROW_KERNELS(F32, float)
EG_ROW_KERNELS(F64, double)
#undef EG_ROW_KERNELS

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(RowExtremeF32);
HWY_EXPORT(RowExtremeF64);
HWY_EXPORT(RowExpSumF32);
HWY_EXPORT(RowExpSumF64);
HWY_EXPORT(RowProductF32);
HWY_EXPORT(RowProductF64);

namespace reduce {

#define EG_ROW_ENTRIES(SUFFIX, T)                                                                                      \
  template <> T row_extreme(const T* x, std::int64_t n, bool largest) {                                                \
    return HWY_DYNAMIC_DISPATCH(RowExtreme##SUFFIX)(x, n, largest);                                                    \
  }                                                                                                                    \
  template <> double row_exp_sum(const T* x, std::int64_t n, double shift) {                                           \
    return HWY_DYNAMIC_DISPATCH(RowExpSum##SUFFIX)(x, n, shift);                                                       \
  }                                                                                                                    \
  template <> RowProduct row_product(const T* x, std::int64_t n) {                                                     \
    return HWY_DYNAMIC_DISPATCH(RowProduct##SUFFIX)(x, n);                                                             \
  }
EG_ROW_ENTRIES(F32, float)
EG_ROW_ENTRIES(F64, double)
#undef EG_ROW_ENTRIES

} // namespace reduce
} // namespace eg
#endif
