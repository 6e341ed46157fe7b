#include "core/ops/attention/kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/attention/attention_simd.cpp"
#include "core/ops/softmax/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg {
namespace HWY_NAMESPACE {
namespace {

using attention_kernels::Ahead;
using attention_kernels::Mask;
using attention_kernels::Rows;
using attention_kernels::TileMask;

/// s_j += mask_j
template <class T> HWY_INLINE void AddMask(T* s, const T* mask, std::int64_t column, std::size_t n) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const bool repeats = column == 0;
  const auto one = hn::Set(d, *mask);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::Add(hn::LoadU(d, s + i), repeats ? one : hn::LoadU(d, mask + i)), d, s + i);
  if (i < n)
    StoreUpTo(hn::Add(LoadUpTo(d, s + i, n - i), repeats ? one : LoadUpTo(d, mask + i, n - i)), d, s + i, n - i);
}

/// Row r of a tile with its mask added; the number of keys that it sees.
template <class T> HWY_INLINE std::size_t MaskRow(T* s, std::int64_t r, std::size_t keys, const TileMask<T>& hides) {
  const auto seen = static_cast<std::size_t>(hides.keys_of(r, static_cast<std::int64_t>(keys)));
  const Mask<T>& mask = hides.mask;
  if (mask.data != nullptr && seen > 0) AddMask(s, mask.data + r * mask.row, mask.column, seen);
  return seen;
}

/// True where every score is -infinity (a NaN is none).
template <class T> HWY_INLINE bool SeesNothing(const T* s, std::size_t n, T largest) {
  return n == 0 || (largest == -std::numeric_limits<T>::infinity() && !std::isnan(RowSum(s, n)));
}

template <class T>
void SoftmaxTile(T* s, std::int64_t rows, std::size_t keys, T* lse, const TileMask<T>& hides, const Ahead& ahead) {
  const bool masked = hides.any();
  for (std::int64_t r = 0; r < rows; ++r, s += keys) {
    ahead.touch(r, 0, Ahead::most);
    const std::size_t seen = MaskRow(s, r, keys, hides);
    const T largest = RowMax(s, seen);
    if (masked && SeesNothing(s, seen, largest)) {
      std::fill_n(s, keys, T{0});
      lse[r] = T{0};
      continue;
    }
    const T total = RowExpSum<true>(s, s, seen, largest);
    RowScale(s, s, seen, T{1} / total);
    std::fill(s + seen, s + keys, T{0});
    lse[r] = largest + std::log(total);
  }
}

template <class T>
void ProbabilityTile(T* s, std::int64_t rows, std::size_t keys, const T* lse, const TileMask<T>& hides,
                     const Ahead& ahead) {
  for (std::int64_t r = 0; r < rows; ++r, s += keys) {
    ahead.touch(r, 0, 3);
    const std::size_t seen = MaskRow(s, r, keys, hides);
    RowExp(s, s, seen, lse[r]);
    std::fill(s + seen, s + keys, T{0});
  }
}

template <class T>
void ScoreGradientTile(const T* s, T* ds, std::int64_t rows, std::size_t keys, Rows<const T> g, Rows<const T> y,
                       std::size_t value_dim, const T* dlse, const Ahead& ahead) {
  for (std::int64_t r = 0; r < rows; ++r, s += keys, ds += keys) {
    ahead.touch(r, 3, Ahead::most);
    const T delta = RowDot(g.data + r * g.ld, y.data + r * y.ld, value_dim) - (dlse ? dlse[r] : T{0});
    RowWeighShifted(s, ds, ds, keys, delta);
  }
}

#define EG_TILE_KERNELS(SUFFIX, T)                                                                                     \
  void Softmax##SUFFIX(T* s, std::int64_t rows, std::size_t keys, T* lse, const TileMask<T>& m, const Ahead& ahead) {  \
    SoftmaxTile(s, rows, keys, lse, m, ahead);                                                                         \
  }                                                                                                                    \
  void Probability##SUFFIX(T* s, std::int64_t rows, std::size_t keys, const T* lse, const TileMask<T>& m,              \
                           const Ahead& ahead) {                                                                       \
    ProbabilityTile(s, rows, keys, lse, m, ahead);                                                                     \
  }                                                                                                                    \
  void ScoreGradient##SUFFIX(const T* s, T* ds, std::int64_t rows, std::size_t keys, Rows<const T> g, Rows<const T> y, \
                             std::size_t value_dim, const T* dlse, const Ahead& ahead) {                               \
    ScoreGradientTile(s, ds, rows, keys, g, y, value_dim, dlse, ahead);                                                \
  }
EG_TILE_KERNELS(F32, float)
EG_TILE_KERNELS(F64, double)
#undef EG_TILE_KERNELS

} // namespace
} // namespace HWY_NAMESPACE
} // namespace eg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

#define EG_TILE_ENTRIES(SUFFIX, T)                                                                                     \
  template <>                                                                                                          \
  void softmax_tile<T>(T * s, std::int64_t rows, std::int64_t keys, T * lse, const TileMask<T>& m,                     \
                       const Ahead& ahead) {                                                                           \
    HWY_DYNAMIC_DISPATCH(Softmax##SUFFIX)(s, rows, static_cast<std::size_t>(keys), lse, m, ahead);                     \
  }                                                                                                                    \
  template <>                                                                                                          \
  void probability_tile<T>(T * s, std::int64_t rows, std::int64_t keys, const T* lse, const TileMask<T>& m,            \
                           const Ahead& ahead) {                                                                       \
    HWY_DYNAMIC_DISPATCH(Probability##SUFFIX)(s, rows, static_cast<std::size_t>(keys), lse, m, ahead);                 \
  }                                                                                                                    \
  template <>                                                                                                          \
  void score_gradient_tile<T>(const T* s, T* ds, std::int64_t rows, std::int64_t keys, Rows<const T> g,                \
                              Rows<const T> y, std::int64_t value_dim, const T* dlse, const Ahead& ahead) {            \
    HWY_DYNAMIC_DISPATCH(ScoreGradient##SUFFIX)                                                                        \
    (s, ds, rows, static_cast<std::size_t>(keys), g, y, static_cast<std::size_t>(value_dim), dlse, ahead);             \
  }

HWY_EXPORT(SoftmaxF32);
HWY_EXPORT(SoftmaxF64);
HWY_EXPORT(ProbabilityF32);
HWY_EXPORT(ProbabilityF64);
HWY_EXPORT(ScoreGradientF32);
HWY_EXPORT(ScoreGradientF64);

namespace attention_kernels {
EG_TILE_ENTRIES(F32, float)
EG_TILE_ENTRIES(F64, double)
} // namespace attention_kernels
} // namespace eg
#undef EG_TILE_ENTRIES
#endif
