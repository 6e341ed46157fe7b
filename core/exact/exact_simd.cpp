// The loops of exact sums, in double lanes.

#include "core/exact/exact_grid.h"

#include <cmath>
#include <cstddef>

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

/// Running largest magnitude and, in `odd`, NaN once a term was not finite.
struct RunningExtent {
  hn::Vec<Doubles> largest;
  hn::Vec<Doubles> odd;

  explicit HWY_INLINE RunningExtent(Doubles d) : largest(hn::Zero(d)), odd(hn::Zero(d)) {}
  HWY_INLINE void Add(Doubles d, hn::Vec<Doubles> x) {
    const auto magnitude = hn::Abs(x);
    const auto bigger = hn::Gt(magnitude, largest); // false for NaN
    largest = hn::IfThenElse(bigger, magnitude, largest);
    odd = hn::MulAdd(x, hn::Zero(d), odd); // 0 for finite x
  }
  HWY_INLINE Extent Lane(Doubles d, std::size_t lane) const {
    HWY_ALIGN double l[HWY_LANES(double)];
    HWY_ALIGN double o[HWY_LANES(double)];
    hn::Store(largest, d, l);
    hn::Store(odd, d, o);
    return {l[lane], o[lane] == 0.0};
  }
};

/// Running exact sums on three grids.
struct RunningParts {
  hn::Vec<Doubles> s0, s1, s2;

  explicit HWY_INLINE RunningParts(Doubles d) : s0(hn::Zero(d)), s1(hn::Zero(d)), s2(hn::Zero(d)) {}
  HWY_INLINE void Add(hn::Vec<Doubles> t, hn::Vec<Doubles> r0, hn::Vec<Doubles> r1, hn::Vec<Doubles> r2) {
    const auto h0 = hn::Sub(hn::Add(t, r0), r0);
    const auto rest0 = hn::Sub(t, h0);
    const auto h1 = hn::Sub(hn::Add(rest0, r1), r1);
    const auto rest1 = hn::Sub(rest0, h1);
    const auto h2 = hn::Sub(hn::Add(rest1, r2), r2);
    s0 = hn::Add(s0, h0);
    s1 = hn::Add(s1, h1);
    s2 = hn::Add(s2, h2);
  }
};

template <class T> Extent ExtentOf(const T* x, std::int64_t n) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  RunningExtent running(d);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) running.Add(d, LoadDoubles(d, x + i));
  if (i < n) running.Add(d, LoadDoublesUpTo(d, x + i, static_cast<std::size_t>(n - i)));
  Extent all;
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) {
    const Extent one = running.Lane(d, lane);
    all = {one.largest > all.largest ? one.largest : all.largest, all.finite && one.finite};
  }
  return all;
}

template <class T> Parts PartsOf(const T* x, std::int64_t n, const Grids& grids) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, grids.scale);
  const auto r0 = hn::Set(d, grids.rounder[0]);
  const auto r1 = hn::Set(d, grids.rounder[1]);
  const auto r2 = hn::Set(d, grids.rounder[2]);
  RunningParts a(d), b(d); // two, so that additions overlap
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a.Add(hn::Mul(LoadDoubles(d, x + i), scale), r0, r1, r2);
    b.Add(hn::Mul(LoadDoubles(d, x + i + lanes), scale), r0, r1, r2);
  }
  for (; i < n; i += lanes) {
    const auto left = static_cast<std::size_t>(n - i < lanes ? n - i : lanes);
    a.Add(hn::Mul(LoadDoublesUpTo(d, x + i, left), scale), r0, r1, r2);
  }
  return {{hn::GetLane(hn::SumOfLanes(d, hn::Add(a.s0, b.s0))), hn::GetLane(hn::SumOfLanes(d, hn::Add(a.s1, b.s1))),
           hn::GetLane(hn::SumOfLanes(d, hn::Add(a.s2, b.s2)))}};
}

template <class T>
void ColumnExtents(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, Extent* out) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < columns; j += lanes) {
    const auto width = static_cast<std::size_t>(columns - j < lanes ? columns - j : lanes);
    RunningExtent running(d);
    for (std::int64_t r = 0; r < rows; ++r) running.Add(d, LoadDoublesUpTo(d, x + r * stride + j, width));
    for (std::size_t lane = 0; lane < width; ++lane) out[j + static_cast<std::int64_t>(lane)] = running.Lane(d, lane);
  }
}

template <class T>
void ColumnParts(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, const Grids* grids,
                 Parts* out) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < columns; j += lanes) {
    const auto width = static_cast<std::size_t>(columns - j < lanes ? columns - j : lanes);
    HWY_ALIGN double table[4][HWY_LANES(double)] = {};
    for (std::size_t lane = 0; lane < width; ++lane) {
      const Grids& grid = grids[j + static_cast<std::int64_t>(lane)];
      table[0][lane] = grid.scale;
      for (std::size_t level = 0; level < 3; ++level) table[level + 1][lane] = grid.rounder[level];
    }
    const auto scale = hn::Load(d, table[0]);
    const auto r0 = hn::Load(d, table[1]), r1 = hn::Load(d, table[2]), r2 = hn::Load(d, table[3]);
    RunningParts running(d);
    for (std::int64_t r = 0; r < rows; ++r)
      running.Add(hn::Mul(LoadDoublesUpTo(d, x + r * stride + j, width), scale), r0, r1, r2);
    hn::Store(running.s0, d, table[0]);
    hn::Store(running.s1, d, table[1]);
    hn::Store(running.s2, d, table[2]);
    for (std::size_t lane = 0; lane < width; ++lane)
      out[j + static_cast<std::int64_t>(lane)] = {{table[0][lane], table[1][lane], table[2][lane]}};
  }
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
