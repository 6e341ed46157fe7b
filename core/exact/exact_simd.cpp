// The loops of exact sums, in double lanes.

#include "core/exact/exact_grid.h"

#include <cmath>
#include <cstddef>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/exact/exact_simd.cpp"
#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

using exact::Extent;
using exact::Grids;
using exact::Parts;

using Doubles = hn::ScalableTag<double>;

HWY_INLINE hn::Vec<Doubles> LoadDoubles(Doubles d, const double* x) { return hn::LoadU(d, x); }
HWY_INLINE hn::Vec<Doubles> LoadDoubles(Doubles d, const float* x) {
  const hn::Rebind<float, Doubles> narrow;
  return hn::PromoteTo(d, hn::LoadU(narrow, x));
}
HWY_INLINE hn::Vec<Doubles> LoadDoublesUpTo(Doubles d, const double* x, std::size_t count) {
  return LoadUpTo(d, x, count);
}
HWY_INLINE hn::Vec<Doubles> LoadDoublesUpTo(Doubles d, const float* x, std::size_t count) {
  const hn::Rebind<float, Doubles> narrow;
  return hn::PromoteTo(d, LoadUpTo(narrow, x, count));
}

/// Running largest magnitudes and, in `odd`, NaN once a term was not finite.
HWY_INLINE void AddToExtent(Doubles d, hn::Vec<Doubles> x, hn::Vec<Doubles>& largest, hn::Vec<Doubles>& odd) {
  const auto magnitude = hn::Abs(x);
  largest = hn::IfThenElse(hn::Gt(magnitude, largest), magnitude, largest); // not for NaN
  odd = hn::MulAdd(x, hn::Zero(d), odd);                                    // 0 for finite x
}
HWY_INLINE Extent ExtentInLane(Doubles d, hn::Vec<Doubles> largest, hn::Vec<Doubles> odd, std::size_t lane) {
  HWY_ALIGN double l[HWY_LANES(double)];
  HWY_ALIGN double o[HWY_LANES(double)];
  hn::Store(largest, d, l);
  hn::Store(odd, d, o);
  return {l[lane], o[lane] == 0.0};
}

/// Adds the parts of t to the running exact sums on three grids.
HWY_INLINE void AddToParts(hn::Vec<Doubles> t, const hn::Vec<Doubles>* rounders, hn::Vec<Doubles>* sums) {
  const auto h0 = hn::Sub(hn::Add(t, rounders[0]), rounders[0]);
  const auto rest0 = hn::Sub(t, h0);
  const auto h1 = hn::Sub(hn::Add(rest0, rounders[1]), rounders[1]);
  const auto rest1 = hn::Sub(rest0, h1);
  const auto h2 = hn::Sub(hn::Add(rest1, rounders[2]), rounders[2]);
  sums[0] = hn::Add(sums[0], h0);
  sums[1] = hn::Add(sums[1], h1);
  sums[2] = hn::Add(sums[2], h2);
}

template <class T> Extent ExtentOf(const T* x, std::int64_t n) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto largest = hn::Zero(d), odd = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) AddToExtent(d, LoadDoubles(d, x + i), largest, odd);
  if (i < n) AddToExtent(d, LoadDoublesUpTo(d, x + i, static_cast<std::size_t>(n - i)), largest, odd);
  Extent all;
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) {
    const Extent one = ExtentInLane(d, largest, odd, lane);
    all = {one.largest > all.largest ? one.largest : all.largest, all.finite && one.finite};
  }
  return all;
}

template <class T> Parts PartsOf(const T* x, std::int64_t n, const Grids& grids) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, grids.scale);
  const hn::Vec<Doubles> rounders[3] = {hn::Set(d, grids.rounder[0]), hn::Set(d, grids.rounder[1]),
                                        hn::Set(d, grids.rounder[2])};
  hn::Vec<Doubles> a[3] = {hn::Zero(d), hn::Zero(d), hn::Zero(d)}; // two, so that additions overlap
  hn::Vec<Doubles> b[3] = {hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    AddToParts(hn::Mul(LoadDoubles(d, x + i), scale), rounders, a);
    AddToParts(hn::Mul(LoadDoubles(d, x + i + lanes), scale), rounders, b);
  }
  for (; i < n; i += lanes) {
    const auto left = static_cast<std::size_t>(n - i < lanes ? n - i : lanes);
    AddToParts(hn::Mul(LoadDoublesUpTo(d, x + i, left), scale), rounders, a);
  }
  Parts parts;
  for (int level = 0; level < 3; ++level)
    parts.sum[level] = hn::GetLane(hn::SumOfLanes(d, hn::Add(a[level], b[level])));
  return parts;
}

constexpr int side = 4; // vectors of columns

/// f(vectors, j, width) for columns [j, j + width), `side` vectors at a time while there are so many: rows far apart
/// are then read by whole lines of the cache.
template <class F> HWY_INLINE void EachGroupOfColumns(std::int64_t columns, F&& f) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Doubles()));
  std::int64_t j = 0;
  for (; j + side * lanes <= columns; j += side * lanes) f(std::integral_constant<int, side>(), j, side * lanes);
  for (; j < columns; j += lanes) f(std::integral_constant<int, 1>(), j, columns - j < lanes ? columns - j : lanes);
}

/// The lanes of vector v among `width` columns.
HWY_INLINE std::size_t LanesOf(Doubles d, int v, std::int64_t width) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t left = width - v * lanes;
  return static_cast<std::size_t>(left < lanes ? left : lanes);
}

template <class T>
void ColumnExtents(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, Extent* out) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  EachGroupOfColumns(columns, [&](auto vectors, std::int64_t j, std::int64_t width) HWY_ATTR {
    constexpr int n = decltype(vectors)::value;
    hn::Vec<Doubles> largest[n], odd[n];
    for (int v = 0; v < n; ++v) largest[v] = odd[v] = hn::Zero(d);
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const row = x + r * stride + j;
      HWY_UNROLL(4)
      for (int v = 0; v < n; ++v) {
        const auto value = n > 1 ? LoadDoubles(d, row + v * lanes) : LoadDoublesUpTo(d, row, LanesOf(d, 0, width));
        AddToExtent(d, value, largest[v], odd[v]);
      }
    }
    for (int v = 0; v < n; ++v)
      for (std::size_t lane = 0; lane < LanesOf(d, v, width); ++lane)
        out[j + v * lanes + static_cast<std::int64_t>(lane)] = ExtentInLane(d, largest[v], odd[v], lane);
  });
}

template <class T>
void ColumnParts(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, const Grids* grids,
                 Parts* out) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  EachGroupOfColumns(columns, [&](auto vectors, std::int64_t j, std::int64_t width) HWY_ATTR {
    constexpr int n = decltype(vectors)::value;
    hn::Vec<Doubles> scale[n], rounders[n][3], sums[n][3];
    HWY_ALIGN double table[4][HWY_LANES(double)] = {};
    for (int v = 0; v < n; ++v) {
      for (std::size_t lane = 0; lane < LanesOf(d, v, width); ++lane) {
        const Grids& grid = grids[j + v * lanes + static_cast<std::int64_t>(lane)];
        table[0][lane] = grid.scale;
        for (std::size_t level = 0; level < 3; ++level) table[level + 1][lane] = grid.rounder[level];
      }
      scale[v] = hn::Load(d, table[0]);
      for (int level = 0; level < 3; ++level) {
        rounders[v][level] = hn::Load(d, table[level + 1]);
        sums[v][level] = hn::Zero(d);
      }
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const row = x + r * stride + j;
      HWY_UNROLL(4)
      for (int v = 0; v < n; ++v) {
        const auto value = n > 1 ? LoadDoubles(d, row + v * lanes) : LoadDoublesUpTo(d, row, LanesOf(d, 0, width));
        AddToParts(hn::Mul(value, scale[v]), rounders[v], sums[v]);
      }
    }
    for (int v = 0; v < n; ++v) {
      for (int level = 0; level < 3; ++level) hn::Store(sums[v][level], d, table[level]);
      for (std::size_t lane = 0; lane < LanesOf(d, v, width); ++lane)
        out[j + v * lanes + static_cast<std::int64_t>(lane)] = {{table[0][lane], table[1][lane], table[2][lane]}};
    }
  });
}

#define EG_EXACT_KERNELS(SUFFIX, T)                                                                                    \
  Extent ExtentOf##SUFFIX(const T* x, std::int64_t n) { return ExtentOf(x, n); }                                       \
  Parts PartsOf##SUFFIX(const T* x, std::int64_t n, const Grids& grids) { return PartsOf(x, n, grids); }               \
  void ColumnExtents##SUFFIX(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, Extent* out) {  \
    ColumnExtents(x, rows, stride, columns, out);                                                                      \
  }                                                                                                                    \
  void ColumnParts##SUFFIX(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns,                   \
                           const Grids* grids, Parts* out) {                                                           \
    ColumnParts(x, rows, stride, columns, grids, out);                                                                 \
  }
EG_EXACT_KERNELS(F32, float)
EG_EXACT_KERNELS(F64, double)
#undef EG_EXACT_KERNELS

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

#define EG_EXACT_ENTRIES(SUFFIX, T)                                                                                    \
  HWY_EXPORT(ExtentOf##SUFFIX);                                                                                        \
  HWY_EXPORT(PartsOf##SUFFIX);                                                                                         \
  HWY_EXPORT(ColumnExtents##SUFFIX);                                                                                   \
  HWY_EXPORT(ColumnParts##SUFFIX);                                                                                     \
  template <> exact::Extent exact::extent_of(const T* x, std::int64_t n) {                                             \
    return HWY_DYNAMIC_DISPATCH(ExtentOf##SUFFIX)(x, n);                                                               \
  }                                                                                                                    \
  template <> exact::Parts exact::parts_of(const T* x, std::int64_t n, const exact::Grids& grids) {                    \
    return HWY_DYNAMIC_DISPATCH(PartsOf##SUFFIX)(x, n, grids);                                                         \
  }                                                                                                                    \
  template <>                                                                                                          \
  void exact::column_extents(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns,                 \
                             exact::Extent* out) {                                                                     \
    HWY_DYNAMIC_DISPATCH(ColumnExtents##SUFFIX)(x, rows, stride, columns, out);                                        \
  }                                                                                                                    \
  template <>                                                                                                          \
  void exact::column_parts(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns,                   \
                           const exact::Grids* grids, exact::Parts* out) {                                             \
    HWY_DYNAMIC_DISPATCH(ColumnParts##SUFFIX)(x, rows, stride, columns, grids, out);                                   \
  }
EG_EXACT_ENTRIES(F32, float)
EG_EXACT_ENTRIES(F64, double)
#undef EG_EXACT_ENTRIES

} // namespace eg
#endif
