// Defines vector loops over one row, shared by the kernels of the normalising ops. Included once per SIMD target.
//
// The tail of a row runs the same vector arithmetic as its body, on a padded copy or under a mask, and every reduction
// has a fixed number of accumulators: a result depends on the row alone, not on its address or on the thread.

#include "core/simd/lanes-inl.h" // ahead of the guard: it includes the kernel file, and so this one, once per target

#include <cstddef>
#include <limits>

#if defined(EQUIGRAD_CORE_OPS_SOFTMAX_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EQUIGRAD_CORE_OPS_SOFTMAX_ROWS_INL_H_
#undef EQUIGRAD_CORE_OPS_SOFTMAX_ROWS_INL_H_
#else
#define EQUIGRAD_CORE_OPS_SOFTMAX_ROWS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace eg {
namespace HWY_NAMESPACE {

template <class T> using RowTag = hn::ScalableTag<T>;

template <class D> HWY_INLINE hn::TFromD<D> LaneSum(D d, hn::Vec<D> v) { return hn::GetLane(hn::SumOfLanes(d, v)); }

/// What a later pass over a row does with the row behind it, whose first pass would wait for memory.
enum class Next { left, fetched };

/// Largest element; -infinity for an empty row.
template <class T> HWY_INLINE T RowMax(const T* x, std::size_t n) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto m0 = lowest, m1 = lowest, m2 = lowest, m3 = lowest;
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    m0 = hn::Max(m0, hn::LoadU(d, x + i));
    m1 = hn::Max(m1, hn::LoadU(d, x + i + lanes));
    m2 = hn::Max(m2, hn::LoadU(d, x + i + 2 * lanes));
    m3 = hn::Max(m3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) m0 = hn::Max(m0, hn::LoadU(d, x + i));
  if (i < n) {
    const auto tail = LoadUpTo(d, x + i, n - i);
    m1 = hn::Max(m1, hn::IfThenElse(hn::FirstN(d, n - i), tail, lowest));
  }
  return LaneMax(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3)));
}

template <class T> HWY_INLINE T RowSum(const T* x, std::size_t n) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, x + i));
    s1 = hn::Add(s1, hn::LoadU(d, x + i + lanes));
    s2 = hn::Add(s2, hn::LoadU(d, x + i + 2 * lanes));
    s3 = hn::Add(s3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::Add(s0, hn::LoadU(d, x + i));
  if (i < n) s1 = hn::Add(s1, LoadUpTo(d, x + i, n - i));
  return LaneSum(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

template <class T> HWY_INLINE T RowDot(const T* a, const T* b, std::size_t n) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
    s1 = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes), s1);
    s2 = hn::MulAdd(hn::LoadU(d, a + i + 2 * lanes), hn::LoadU(d, b + i + 2 * lanes), s2);
    s3 = hn::MulAdd(hn::LoadU(d, a + i + 3 * lanes), hn::LoadU(d, b + i + 3 * lanes), s3);
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
  if (i < n) s1 = hn::MulAdd(LoadUpTo(d, a + i, n - i), LoadUpTo(d, b + i, n - i), s1);
  return LaneSum(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

/// sum_j exp(x_j - shift); with `store`, y_j = exp(x_j - shift) as well (y may be x).
template <bool store, Next next = Next::left, class T>
HWY_INLINE T RowExpSum(const T* x, T* y, std::size_t n, T shift) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto offset = hn::Set(d, shift);
  auto s0 = hn::Zero(d), s1 = s0;
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    if constexpr (next == Next::fetched) {
      hwy::Prefetch(x + n + i);
      if (2 * lanes * sizeof(T) > 64) hwy::Prefetch(x + n + i + lanes); // two lines
    }
    const auto e0 = Exp(d, hn::Sub(hn::LoadU(d, x + i), offset));
    const auto e1 = Exp(d, hn::Sub(hn::LoadU(d, x + i + lanes), offset));
    s0 = hn::Add(s0, e0);
    s1 = hn::Add(s1, e1);
    if constexpr (store) {
      hn::StoreU(e0, d, y + i);
      hn::StoreU(e1, d, y + i + lanes);
    }
  }
  if (i + lanes <= n) {
    const auto e0 = Exp(d, hn::Sub(hn::LoadU(d, x + i), offset));
    s0 = hn::Add(s0, e0);
    if constexpr (store) hn::StoreU(e0, d, y + i);
    i += lanes;
  }
  if (i < n) {
    const auto e1 = Exp(d, hn::Sub(LoadUpTo(d, x + i, n - i), offset));
    s1 = hn::Add(s1, hn::IfThenElseZero(hn::FirstN(d, n - i), e1));
    if constexpr (store) StoreUpTo(e1, d, y + i, n - i);
  }
  return LaneSum(d, hn::Add(s0, s1));
}

/// y_j = exp(x_j - shift)
template <class T> HWY_INLINE void RowExp(const T* x, T* y, std::size_t n, T shift) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto offset = hn::Set(d, shift);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(Exp(d, hn::Sub(hn::LoadU(d, x + i), offset)), d, y + i);
  if (i < n) StoreUpTo(Exp(d, hn::Sub(LoadUpTo(d, x + i, n - i), offset)), d, y + i, n - i);
}

/// y = exp((x - shift) - second) * factor + addend, for the elements of a row.
template <class T> struct ExpAffine { T shift, second, factor, addend; };

template <class D, class V> HWY_INLINE V ApplyExpAffine(D d, V x, const ExpAffine<hn::TFromD<D>>& f) {
  const auto exponent = hn::Sub(hn::Sub(x, hn::Set(d, f.shift)), hn::Set(d, f.second));
  return MulAdd(d, Exp(d, exponent), hn::Set(d, f.factor), hn::Set(d, f.addend));
}

template <Reduction r, class T> HWY_INLINE void RowExpAffine(const T* x, T* y, std::size_t n, const ExpAffine<T>& f) {
  const TagOf<T, r> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(ApplyExpAffine(d, hn::LoadU(d, x + i), f), d, y + i);
  if (i < n) StoreUpTo(ApplyExpAffine(d, LoadUpTo(d, x + i, n - i), f), d, y + i, n - i);
}

/// y_j = x_j * factor
template <class T> HWY_INLINE void RowScale(const T* x, T* y, std::size_t n, T factor) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto mul = hn::Set(d, factor);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), mul), d, y + i);
  if (i < n) StoreUpTo(hn::Mul(LoadUpTo(d, x + i, n - i), mul), d, y + i, n - i);
}

/// y_j = (x_j - shift) - second
template <class T> HWY_INLINE void RowShift(const T* x, T* y, std::size_t n, T shift, T second) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto a = hn::Set(d, shift);
  const auto b = hn::Set(d, second);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Sub(hn::Sub(hn::LoadU(d, x + i), a), b), d, y + i);
  if (i < n) StoreUpTo(hn::Sub(hn::Sub(LoadUpTo(d, x + i, n - i), a), b), d, y + i, n - i);
}

/// y_j = s_j (g_j - shift); y may be s or g.
template <Next next = Next::left, class T>
HWY_INLINE void RowWeighShifted(const T* s, const T* g, T* y, std::size_t n, T shift) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto offset = hn::Set(d, shift);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    if constexpr (next == Next::fetched) {
      hwy::Prefetch(s + n + i);
      hwy::Prefetch(g + n + i);
    }
    hn::StoreU(hn::Mul(hn::LoadU(d, s + i), hn::Sub(hn::LoadU(d, g + i), offset)), d, y + i);
  }
  if (i < n) {
    const auto tail = hn::Mul(LoadUpTo(d, s + i, n - i), hn::Sub(LoadUpTo(d, g + i, n - i), offset));
    StoreUpTo(tail, d, y + i, n - i);
  }
}

} // namespace HWY_NAMESPACE
} // namespace eg
HWY_AFTER_NAMESPACE();

#endif // per-target include guard
