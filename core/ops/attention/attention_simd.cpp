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
using attention_kernels::RunningSoftmax;
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

template <class T> void SoftmaxTile(T* s, std::int64_t rows, std::size_t keys, const TileMask<T>& hides) {
  const bool masked = hides.any();
  for (std::int64_t r = 0; r < rows; ++r, s += keys) {
    const std::size_t seen = MaskRow(s, r, keys, hides);
    const T largest = RowMax(s, seen);
    if (masked && SeesNothing(s, seen, largest)) {
      std::fill_n(s, keys, T{0});
      continue;
    }
    const T total = RowExpSum<true>(s, s, seen, largest);
    RowScale(s, s, seen, T{1} / total);
    std::fill(s + seen, s + keys, T{0});
  }
}

template <class T>
void RunningSoftmaxTile(Rows<T> tile, std::int64_t rows, std::size_t keys, const RunningSoftmax<T>& so_far, Rows<T> y,
                        std::size_t value_dim, const TileMask<T>& hides, const Ahead& ahead) {
  constexpr T nothing = -std::numeric_limits<T>::infinity();
  for (std::int64_t r = 0; r < rows; ++r) {
    ahead.touch(r, 0, Ahead::most);
    T* const s = tile.data + r * tile.ld;
    const std::size_t seen = MaskRow(s, r, keys, hides);
    const T before = so_far.largest[r], found = RowMax(s, seen), largest = std::max(before, found);
    if (SeesNothing(s, seen, found)) {
      std::fill_n(s, keys, T{0});
      continue;
    }
    const T total = RowExpSum<true>(s, s, seen, largest);
    std::fill(s + seen, s + keys, T{0});
    if (before != nothing && before != largest) {
      const T factor = std::exp(before - largest);
      so_far.total[r] *= factor;
      RowScale(y.data + r * y.ld, y.data + r * y.ld, value_dim, factor);
    }
    so_far.largest[r] = largest;
    so_far.total[r] += total;
  }
}

template <class T>
void FinishSoftmax(const RunningSoftmax<T>& all, std::int64_t rows, Rows<T> y, std::size_t value_dim, bool masked) {
  for (std::int64_t r = 0; r < rows; ++r) {
    if (all.total[r] == T{0}) { // y is 0
      all.largest[r] = masked ? T{0} : std::numeric_limits<T>::quiet_NaN();
      if (!masked) std::fill_n(y.data + r * y.ld, value_dim, all.largest[r]);
      continue;
    }
    RowScale(y.data + r * y.ld, y.data + r * y.ld, value_dim, T{1} / all.total[r]);
    all.largest[r] += std::log(all.total[r]);
  }
}

template <class T>
void ProbabilityTile(Rows<T> tile, std::int64_t rows, std::size_t keys, const T* lse, const TileMask<T>& hides,
                     const Ahead& ahead) {
  for (std::int64_t r = 0; r < rows; ++r) {
    ahead.touch(r, 0, 3);
    T* const s = tile.data + r * tile.ld;
    const std::size_t seen = MaskRow(s, r, keys, hides);
    RowExp(s, s, seen, lse[r]);
    std::fill(s + seen, s + keys, T{0});
  }
}

template <class T>
void ScoreGradientTile(Rows<const T> s, Rows<T> ds, std::int64_t rows, std::size_t keys, Rows<const T> g,
                       Rows<const T> y, std::size_t value_dim, const T* dlse, const Ahead& ahead) {
  for (std::int64_t r = 0; r < rows; ++r) {
    ahead.touch(r, 3, Ahead::most);
    const T delta = RowDot(g.data + r * g.ld, y.data + r * y.ld, value_dim) - (dlse ? dlse[r] : T{0});
    T* const gradient = ds.data + r * ds.ld;
    RowWeighShifted(s.data + r * s.ld, gradient, gradient, keys, delta);
  }
}

#define EG_TILE_KERNELS(SUFFIX, T)                                                                                     \
  void Softmax##SUFFIX(T* s, std::int64_t rows, std::size_t keys, const TileMask<T>& m) {                              \
    SoftmaxTile(s, rows, keys, m);                                                                                     \
  }                                                                                                                    \
  void RunningSoftmax##SUFFIX(Rows<T> s, std::int64_t rows, std::size_t keys, const RunningSoftmax<T>& so_far,         \
                              Rows<T> y, std::size_t value_dim, const TileMask<T>& m, const Ahead& ahead) {            \
    RunningSoftmaxTile(s, rows, keys, so_far, y, value_dim, m, ahead);                                                 \
  }                                                                                                                    \
  void FinishSoftmax##SUFFIX(const RunningSoftmax<T>& all, std::int64_t rows, Rows<T> y, std::size_t value_dim,        \
                             bool masked) {                                                                            \
    FinishSoftmax(all, rows, y, value_dim, masked);                                                                    \
  }                                                                                                                    \
  void Probability##SUFFIX(Rows<T> s, std::int64_t rows, std::size_t keys, const T* lse, const TileMask<T>& m,         \
                           const Ahead& ahead) {                                                                       \
    ProbabilityTile(s, rows, keys, lse, m, ahead);                                                                     \
  }                                                                                                                    \
  void ScoreGradient##SUFFIX(Rows<const T> s, Rows<T> ds, std::int64_t rows, std::size_t keys, Rows<const T> g,        \
                             Rows<const T> y, std::size_t value_dim, const T* dlse, const Ahead& ahead) {              \
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
  template <> void softmax_tile<T>(T * s, std::int64_t rows, std::int64_t keys, const TileMask<T>& m) {                \
    HWY_DYNAMIC_DISPATCH(Softmax##SUFFIX)(s, rows, static_cast<std::size_t>(keys), m);                                 \
  }                                                                                                                    \
  template <>                                                                                                          \
  void running_softmax_tile<T>(Rows<T> s, std::int64_t rows, std::int64_t keys, const RunningSoftmax<T>& so_far,       \
                               Rows<T> y, std::int64_t value_dim, const TileMask<T>& m, const Ahead& ahead) {          \
    HWY_DYNAMIC_DISPATCH(RunningSoftmax##SUFFIX)                                                                       \
    (s, rows, static_cast<std::size_t>(keys), so_far, y, static_cast<std::size_t>(value_dim), m, ahead);               \
  }                                                                                                                    \
  template <>                                                                                                          \
  void finish_softmax<T>(const RunningSoftmax<T>& all, std::int64_t rows, Rows<T> y, std::int64_t value_dim,           \
                         bool masked) {                                                                                \
    HWY_DYNAMIC_DISPATCH(FinishSoftmax##SUFFIX)(all, rows, y, static_cast<std::size_t>(value_dim), masked);            \
  }                                                                                                                    \
  template <>                                                                                                          \
  void probability_tile<T>(Rows<T> s, std::int64_t rows, std::int64_t keys, const T* lse, const TileMask<T>& m,        \
                           const Ahead& ahead) {                                                                       \
    HWY_DYNAMIC_DISPATCH(Probability##SUFFIX)(s, rows, static_cast<std::size_t>(keys), lse, m, ahead);                 \
  }                                                                                                                    \
  template <>                                                                                                          \
  void score_gradient_tile<T>(Rows<const T> s, Rows<T> ds, std::int64_t rows, std::int64_t keys, Rows<const T> g,      \
                              Rows<const T> y, std::int64_t value_dim, const T* dlse, const Ahead& ahead) {            \
    HWY_DYNAMIC_DISPATCH(ScoreGradient##SUFFIX)                                                                        \
    (s, ds, rows, static_cast<std::size_t>(keys), g, y, static_cast<std::size_t>(value_dim), dlse, ahead);             \
  }

HWY_EXPORT(SoftmaxF32);
HWY_EXPORT(SoftmaxF64);
HWY_EXPORT(RunningSoftmaxF32);
HWY_EXPORT(RunningSoftmaxF64);
HWY_EXPORT(FinishSoftmaxF32);
HWY_EXPORT(FinishSoftmaxF64);
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
