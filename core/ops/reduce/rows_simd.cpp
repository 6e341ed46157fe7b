#include "core/ops/reduce/rows.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/reduce/rows_simd.cpp"
#include "core/simd/lanes-inl.h"

#include "core/ops/pointwise/rounded-inl.h"

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

/// e^v; where v is of floats, to a relative error of 2^-40, 1 where it is 0, and never below 2^-200.
template <class T, class D, class V> HWY_INLINE V ExpOf(D d, V v) {
  if constexpr (sizeof(T) == 8) {
    return Exp(d, v);
  } else {
    const V power = detail::FloatPowerOfTwo(d, hn::Mul(v, detail::Constant(d, 1.4426950408889634074)));
    return hn::IfThenElse(hn::Eq(v, hn::Zero(d)), detail::Constant(d, 1.0), power); // else the logarithm of 1 is not 0
  }
}

/// Two accumulators, since a vector of exponentials has enough to overlap within itself.
template <class T> double ExpSumBlock(const T* x, std::int64_t n, double shift) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto offset = hn::Set(d, shift);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    s0 = hn::Add(s0, ExpOf<T>(d, hn::Sub(LoadWide(d, x + i), offset)));
    s1 = hn::Add(s1, ExpOf<T>(d, hn::Sub(LoadWide(d, x + i + lanes), offset)));
  }
  for (; i < n; i += lanes) {
    const auto count = static_cast<std::size_t>(std::min(lanes, n - i));
    const auto e = ExpOf<T>(d, hn::Sub(LoadWideUpTo(d, x + i, count), offset));
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

template <class T>
void ColumnExpSums(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, const double* shifts,
                   double* sums) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::fill_n(sums, columns, 0.0);
  for (std::int64_t r = 0; r < rows; ++r, x += stride) {
    std::int64_t c = 0;
    for (; c + lanes <= columns; c += lanes) {
      const auto e = ExpOf<T>(d, hn::Sub(LoadWide(d, x + c), hn::LoadU(d, shifts + c)));
      hn::StoreU(hn::Add(hn::LoadU(d, sums + c), e), d, sums + c);
    }
    if (c == columns) continue;
    const auto rest = static_cast<std::size_t>(columns - c);
    const auto e = ExpOf<T>(d, hn::Sub(LoadWideUpTo(d, x + c, rest), LoadUpTo(d, shifts + c, rest)));
    StoreUpTo(hn::Add(LoadUpTo(d, sums + c, rest), e), d, sums + c, rest);
  }
}

template <class T> double SquaresBlock(const T* x, std::int64_t n) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto v0 = LoadWide(d, x + i), v1 = LoadWide(d, x + i + lanes);
    const auto v2 = LoadWide(d, x + i + 2 * lanes), v3 = LoadWide(d, x + i + 3 * lanes);
    s0 = hn::Add(s0, hn::Mul(v0, v0));
    s1 = hn::Add(s1, hn::Mul(v1, v1));
    s2 = hn::Add(s2, hn::Mul(v2, v2));
    s3 = hn::Add(s3, hn::Mul(v3, v3));
  }
  for (; i < n; i += lanes) {
    const auto v = LoadWideUpTo(d, x + i, static_cast<std::size_t>(std::min(lanes, n - i)));
    s0 = hn::Add(s0, hn::Mul(v, v));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

template <class T> double RowSquares(const T* x, std::int64_t n) {
  constexpr std::int64_t block = 4096;
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; i += block) sum += SquaresBlock(x + i, std::min(block, n - i));
  return sum;
}

/// The eight chains are the lanes of vectors.
template <class T> HWY_INLINE double RowChainsSum(const T* x, std::int64_t n) {
  const hn::CappedTag<double, 4> d;
  constexpr std::size_t vectors = 8 / hn::MaxLanes(d);
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> sums[vectors];
  for (auto& sum : sums) sum = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (std::size_t v = 0; v < vectors; ++v) sums[v] = hn::Add(sums[v], LoadWide(d, x + i + v * lanes));
  double chains[8];
  for (std::size_t v = 0; v < vectors; ++v) hn::StoreU(sums[v], d, chains + v * lanes);
  for (std::int64_t c = 0; i + c < n; ++c) chains[c] += static_cast<double>(x[i + c]);
  return ((chains[0] + chains[4]) + (chains[2] + chains[6])) + ((chains[1] + chains[5]) + (chains[3] + chains[7]));
}

template <class T>
void RowChainsSums(const T* x, std::int64_t rows, std::int64_t n, std::int64_t stride, double* sums) {
  for (std::int64_t r = 0; r < rows; ++r) sums[r] = RowChainsSum(x + r * stride, n);
}

/// y[c] = the best of y[c] and of `rows` rows: 1 to 4 at a time.
template <bool largest, int rows, class T>
HWY_INLINE void BetterRows(const T* HWY_RESTRICT x, std::int64_t stride, std::int64_t columns, T* HWY_RESTRICT y) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto better = [](auto best, auto v) HWY_ATTR { // a NaN wins, the first one stays
    const auto wins = largest ? hn::Gt(v, best) : hn::Lt(v, best);
    return hn::IfThenElse(hn::IsNaN(best), best, hn::IfThenElse(hn::Or(wins, hn::IsNaN(v)), v, best));
  };
  std::int64_t c = 0;
  for (; c + lanes <= columns; c += lanes) {
    auto best = hn::LoadU(d, y + c);
    for (int r = 0; r < rows; ++r) best = better(best, hn::LoadU(d, x + r * stride + c));
    hn::StoreU(best, d, y + c);
  }
  if (c == columns) return;
  const auto rest = static_cast<std::size_t>(columns - c);
  auto best = LoadUpTo(d, y + c, rest);
  for (int r = 0; r < rows; ++r) best = better(best, LoadUpTo(d, x + r * stride + c, rest));
  StoreUpTo(best, d, y + c, rest);
}

template <bool largest, class T>
void BestOfColumns(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, T* y) {
  std::copy_n(x, columns, y);
  std::int64_t r = 1;
  for (; r + 4 <= rows; r += 4) BetterRows<largest, 4>(x + r * stride, stride, columns, y);
  for (; r < rows; ++r) BetterRows<largest, 1>(x + r * stride, stride, columns, y);
}

template <class T>
void ColumnExtremes(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, bool largest, T* y) {
  largest ? BestOfColumns<true>(x, rows, stride, columns, y) : BestOfColumns<false>(x, rows, stride, columns, y);
}

#define EG_ROW_KERNELS(SUFFIX, T)                                                                                      \
  T RowExtreme##SUFFIX(const T* x, std::int64_t n, bool largest) { return RowExtreme(x, n, largest); }                 \
  void ColumnExtremes##SUFFIX(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, bool largest,  \
                              T* y) {                                                                                  \
    ColumnExtremes(x, rows, stride, columns, largest, y);                                                              \
  }                                                                                                                    \
  void RowChainsSums##SUFFIX(const T* x, std::int64_t rows, std::int64_t n, std::int64_t stride, double* sums) {       \
    RowChainsSums(x, rows, n, stride, sums);                                                                           \
  }                                                                                                                    \
  void ColumnExpSums##SUFFIX(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns,                 \
                             const double* shifts, double* sums) {                                                     \
    ColumnExpSums(x, rows, stride, columns, shifts, sums);                                                             \
  }                                                                                                                    \
  double RowExpSum##SUFFIX(const T* x, std::int64_t n, double shift) { return RowExpSum(x, n, shift); }                \
  double RowSquares##SUFFIX(const T* x, std::int64_t n) { return RowSquares(x, n); }
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
HWY_EXPORT(RowChainsSumsF32);
HWY_EXPORT(RowChainsSumsF64);
HWY_EXPORT(RowExpSumF32);
HWY_EXPORT(RowExpSumF64);
HWY_EXPORT(ColumnExpSumsF32);
HWY_EXPORT(ColumnExpSumsF64);
HWY_EXPORT(RowSquaresF32);
HWY_EXPORT(RowSquaresF64);
HWY_EXPORT(ColumnExtremesF32);
HWY_EXPORT(ColumnExtremesF64);

namespace reduce {

#define EG_ROW_ENTRIES(SUFFIX, T)                                                                                      \
  template <> T row_extreme(const T* x, std::int64_t n, bool largest) {                                                \
    return HWY_DYNAMIC_DISPATCH(RowExtreme##SUFFIX)(x, n, largest);                                                    \
  }                                                                                                                    \
  template <> void row_chains_sums(const T* x, std::int64_t rows, std::int64_t n, std::int64_t stride, double* sums) { \
    HWY_DYNAMIC_DISPATCH(RowChainsSums##SUFFIX)(x, rows, n, stride, sums);                                             \
  }                                                                                                                    \
  template <> double row_exp_sum(const T* x, std::int64_t n, double shift) {                                           \
    return HWY_DYNAMIC_DISPATCH(RowExpSum##SUFFIX)(x, n, shift);                                                       \
  }                                                                                                                    \
  template <>                                                                                                          \
  void column_exp_sums(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, const double* shifts, \
                       double* sums) {                                                                                 \
    HWY_DYNAMIC_DISPATCH(ColumnExpSums##SUFFIX)(x, rows, stride, columns, shifts, sums);                               \
  }                                                                                                                    \
  template <> double row_squares(const T* x, std::int64_t n) {                                                         \
    return HWY_DYNAMIC_DISPATCH(RowSquares##SUFFIX)(x, n);                                                             \
  }                                                                                                                    \
  template <>                                                                                                          \
  void column_extremes(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, bool largest, T* y) { \
    HWY_DYNAMIC_DISPATCH(ColumnExtremes##SUFFIX)(x, rows, stride, columns, largest, y);                                \
  }
EG_ROW_ENTRIES(F32, float)
EG_ROW_ENTRIES(F64, double)
#undef EG_ROW_ENTRIES

} // namespace reduce
} // namespace eg
#endif
