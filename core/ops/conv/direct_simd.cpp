#include "core/ops/conv/direct.h"

#include <algorithm>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/conv/direct_simd.cpp"
#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

using conv::TapSum;

/// Vector by vector through the rows of a TapSum.
struct TapPlace {
  std::int64_t row = 0, column = 0;

  template <class T> HWY_INLINE void next(const TapSum<T>& p, std::int64_t lanes) {
    column += lanes;
    if (column >= p.n) {
      column = 0;
      ++row;
    }
  }
};

/// `outputs` planes of y by `vectors` vectors, which may go on in the next row of windows, in registers. Moves `place`
/// behind them.
template <int outputs, int vectors, class T>
HWY_INLINE void TapTile(const TapSum<T>& p, std::int64_t output, TapPlace& place) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T* HWY_RESTRICT weights = p.weights + output * p.weight_step;
  const T* from[vectors];
  T* to[vectors];
  std::int64_t count[vectors]; // lanes that are in the row
  HWY_UNROLL(8)
  for (int v = 0; v < vectors; ++v) {
    from[v] = p.planes + place.row * p.row_step + place.column;
    to[v] = p.y + output * p.y_step + place.row * p.n + place.column;
    count[v] = std::min(lanes, p.n - place.column);
    place.next(p, lanes);
  }
  V acc[outputs][vectors];
  HWY_UNROLL(4)
  for (int o = 0; o < outputs; ++o) HWY_UNROLL(8)
  for (int v = 0; v < vectors; ++v) {
    const T* const y = to[v] + o * p.y_step;
    if (p.adds)
      acc[o][v] = count[v] == lanes ? hn::LoadU(d, y) : LoadUpTo(d, y, static_cast<std::size_t>(count[v]));
    else
      acc[o][v] = p.start != nullptr ? hn::Set(d, p.start[output + o]) : hn::Zero(d);
  }
  for (std::int64_t k = 0; k < p.terms; ++k) {
    const std::int64_t offset = p.offsets[k];
    V x[vectors];
    HWY_UNROLL(8)
    for (int v = 0; v < vectors; ++v) x[v] = hn::LoadU(d, from[v] + offset);
    HWY_UNROLL(4)
    for (int o = 0; o < outputs; ++o) {
      const V w = hn::Set(d, weights[o * p.weight_step + k]);
      HWY_UNROLL(8)
      for (int v = 0; v < vectors; ++v) acc[o][v] = hn::MulAdd(w, x[v], acc[o][v]);
    }
  }
  HWY_UNROLL(4)
  for (int o = 0; o < outputs; ++o) {
    HWY_UNROLL(8)
    for (int v = 0; v < vectors; ++v) {
      if (HWY_LIKELY(count[v] == lanes)) // masked stores are slow
        hn::StoreU(acc[o][v], d, to[v] + o * p.y_step);
      else
        StoreUpTo(acc[o][v], d, to[v] + o * p.y_step, static_cast<std::size_t>(count[v]));
    }
  }
}

/// TapTile of `wanted` vectors, 1 to `vectors`.
template <int outputs, int vectors, class T>
HWY_INLINE void TapVectors(std::int64_t wanted, const TapSum<T>& p, std::int64_t output, TapPlace& place) {
  if constexpr (vectors > 1)
    if (wanted < vectors) return TapVectors<outputs, vectors - 1>(wanted, p, output, place);
  TapTile<outputs, vectors>(p, output, place);
}

/// In tiles of at most `vectors` vectors, as even as they can be: a tile of one vector waits for its sums. A tile goes
/// on in the next row. Of 7 vectors each, one row would be tiles of 3, 2 and 2, two rows are four of 3 and one of 2.
template <int outputs, int vectors, class T> void TapRows(const TapSum<T>& p, std::int64_t output) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const std::int64_t all = p.rows * ((p.n + lanes - 1) / lanes), tiles = (all + vectors - 1) / vectors;
  TapPlace place;
  for (std::int64_t tile = 0; tile < tiles; ++tile)
    TapVectors<outputs, vectors>(all * (tile + 1) / tiles - all * tile / tiles, p, output, place);
}

template <class T> void TapSums(const TapSum<T>& p) {
  constexpr int several = 4;
  std::int64_t o = 0;
  for (; o + several <= p.outputs; o += several) TapRows<several, 3>(p, o);
  for (; o < p.outputs; ++o) TapRows<1, 8>(p, o);
}

/// The sum of the lanes of v in double.
template <class D, class V> HWY_INLINE double WideSum(D d, V v) {
  using T = LaneOf<D>;
  if constexpr (sizeof(T) == 8) {
    return hn::GetLane(hn::SumOfLanes(d, v));
  } else {
    const hn::ScalableTag<double> wide;
    HWY_ALIGN T lanes[hn::MaxLanes(d)];
    hn::Store(v, d, lanes);
    auto sum = hn::Zero(wide);
    for (std::size_t i = 0; i < hn::Lanes(d); i += hn::Lanes(wide))
      sum = hn::Add(sum, hn::PromoteTo(wide, hn::LoadU(hn::Rebind<float, decltype(wide)>(), lanes + i)));
    return hn::GetLane(hn::SumOfLanes(wide, sum));
  }
}

/// `taps` terms side by side, so that g is read once for them. Rows are added in T until a lane has about 64 terms.
template <int taps, class T>
void ProductTile(const T* HWY_RESTRICT g, std::int64_t rows, std::int64_t n, const T* HWY_RESTRICT planes,
                 std::int64_t row_step, const std::int64_t* offsets, double* sums) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t batch = std::max<std::int64_t>(1, 64 * lanes / std::max<std::int64_t>(n, 1));
  for (std::int64_t first = 0; first < rows; first += batch) {
    V acc[taps];
    for (int k = 0; k < taps; ++k) acc[k] = hn::Zero(d);
    for (std::int64_t i = first; i < std::min(rows, first + batch); ++i) {
      const T* HWY_RESTRICT from = planes + i * row_step;
      const T* HWY_RESTRICT with = g + i * n;
      std::int64_t j = 0;
      for (; j + lanes <= n; j += lanes) {
        const V v = hn::LoadU(d, with + j);
        HWY_UNROLL(8)
        for (int k = 0; k < taps; ++k) acc[k] = hn::MulAdd(v, hn::LoadU(d, from + offsets[k] + j), acc[k]);
      }
      if (j == n) continue;
      const auto rest = static_cast<std::size_t>(n - j);
      const V v = LoadUpTo(d, with + j, rest);
      HWY_UNROLL(8)
      for (int k = 0; k < taps; ++k) acc[k] = hn::MulAdd(v, LoadUpTo(d, from + offsets[k] + j, rest), acc[k]);
    }
    for (int k = 0; k < taps; ++k) sums[k] += WideSum(d, acc[k]);
  }
}

template <class T>
void TapProducts(const T* g, std::int64_t rows, std::int64_t n, const T* planes, std::int64_t row_step,
                 const std::int64_t* offsets, std::int64_t terms, double* sums) {
  std::int64_t k = 0;
  for (; k + 8 <= terms; k += 8) ProductTile<8>(g, rows, n, planes, row_step, offsets + k, sums + k);
  for (; k + 3 <= terms; k += 3) ProductTile<3>(g, rows, n, planes, row_step, offsets + k, sums + k);
  for (; k < terms; ++k) ProductTile<1>(g, rows, n, planes, row_step, offsets + k, sums + k);
}

#define EG_DIRECT_KERNELS(SUFFIX, T)                                                                                   \
  void TapSums##SUFFIX(const TapSum<T>& p) { TapSums(p); }                                                             \
  void TapProducts##SUFFIX(const T* g, std::int64_t rows, std::int64_t n, const T* planes, std::int64_t row_step,      \
                           const std::int64_t* offsets, std::int64_t terms, double* sums) {                            \
    TapProducts(g, rows, n, planes, row_step, offsets, terms, sums);                                                   \
  }
EG_DIRECT_KERNELS(F32, float)
EG_DIRECT_KERNELS(F64, double)
#undef EG_DIRECT_KERNELS

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(TapSumsF32);
HWY_EXPORT(TapSumsF64);
HWY_EXPORT(TapProductsF32);
HWY_EXPORT(TapProductsF64);

namespace conv {

#define EG_DIRECT_ENTRIES(SUFFIX, T)                                                                                   \
  template <> void tap_sums(const TapSum<T>& p) { HWY_DYNAMIC_DISPATCH(TapSums##SUFFIX)(p); }                          \
  template <>                                                                                                          \
  void tap_products(const T* g, std::int64_t rows, std::int64_t n, const T* planes, std::int64_t row_step,             \
                    const std::int64_t* offsets, std::int64_t terms, double* sums) {                                   \
    HWY_DYNAMIC_DISPATCH(TapProducts##SUFFIX)(g, rows, n, planes, row_step, offsets, terms, sums);                     \
  }
EG_DIRECT_ENTRIES(F32, float)
EG_DIRECT_ENTRIES(F64, double)
#undef EG_DIRECT_ENTRIES

} // namespace conv
} // namespace eg
#endif
