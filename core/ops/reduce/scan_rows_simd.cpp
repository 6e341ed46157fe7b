#include "core/ops/reduce/scan_rows.h"

#include "core/simd/transpose.h"

#include <algorithm>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/reduce/scan_rows_simd.cpp"
#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

using reduce::rows_of_scan;
using reduce::Scan;

constexpr std::int64_t steps_at_once = 64; // elements of each row that are turned into columns together

template <class D, class T> HWY_INLINE hn::Vec<D> LoadWide(D d, const T* x) {
  if constexpr (sizeof(T) == 8) {
    return hn::LoadU(d, x);
  } else {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>{}, x));
  }
}
template <class D, class V, class T> HWY_INLINE void StoreNarrow([[maybe_unused]] D d, V v, T* to) {
  if constexpr (sizeof(T) == 8) {
    hn::StoreU(v, d, to);
  } else {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
    double wide[hn::MaxLanes(d)]; // DemoteTo would make the largest float of infinity here
    hn::StoreU(v, d, wide);
    for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) to[lane] = static_cast<T>(wide[lane]);
#else
    const hn::Rebind<T, D> dt;
    hn::StoreU(hn::DemoteTo(dt, v), dt, to);
#endif
  }
}

/// `steps` steps of all rows, whose elements lie as columns, side by side: each step of a row waits for the one before.
/// `starts`: the first step takes what is there.
template <Scan scan, class T>
void ScanTile(const T* a, const T* b, std::int64_t steps, bool reverse, bool starts, double* state, T* y) {
  const hn::CappedTag<double, rows_of_scan> d;
  constexpr std::int64_t lanes = hn::MaxLanes(d), vectors = rows_of_scan / lanes;
  using V = hn::Vec<decltype(d)>;
  V z[vectors];
  HWY_UNROLL(8)
  for (int i = 0; i < vectors; ++i) z[i] = hn::LoadU(d, state + i * lanes);
  for (std::int64_t k = 0; k < steps; ++k) {
    const std::int64_t first = (reverse ? steps - 1 - k : k) * rows_of_scan;
    HWY_UNROLL(8)
    for (int i = 0; i < vectors; ++i) {
      const std::int64_t at = first + i * lanes;
      const V v = LoadWide(d, a + at);
      if constexpr (scan == Scan::linear) {
        const V term = LoadWide(d, b + at);
        z[i] = starts && k == 0 ? term : hn::Add(hn::Mul(v, z[i]), term);
      } else if constexpr (scan == Scan::product) {
        z[i] = starts && k == 0 ? v : hn::Mul(z[i], v);
      } else {
        z[i] = starts && k == 0 ? v : hn::Add(z[i], v);
      }
      StoreNarrow(d, z[i], y + at);
    }
  }
  HWY_UNROLL(8)
  for (int i = 0; i < vectors; ++i) hn::StoreU(z[i], d, state + i * lanes);
}

template <Scan scan, class T> void ScanRows(const T* a, const T* b, std::int64_t n, bool reverse, T* y) {
  constexpr std::int64_t size = steps_at_once * rows_of_scan;
  HWY_ALIGN T columns_of_a[size], columns_of_b[size], columns_of_y[size];
  HWY_ALIGN double state[rows_of_scan] = {};
  for (std::int64_t done = 0; done < n; done += steps_at_once) {
    const std::int64_t steps = std::min(steps_at_once, n - done);
    const std::int64_t first = reverse ? n - done - steps : done;
    simd::transpose(a + first, n, columns_of_a, rows_of_scan, rows_of_scan, steps);
    if constexpr (scan == Scan::linear) simd::transpose(b + first, n, columns_of_b, rows_of_scan, rows_of_scan, steps);
    ScanTile<scan>(columns_of_a, columns_of_b, steps, reverse, done == 0, state, columns_of_y);
    simd::transpose<T>(columns_of_y, rows_of_scan, y + first, n, steps, rows_of_scan);
  }
}

template <class T> void ScanRowsOf(Scan scan, const T* a, const T* b, std::int64_t n, bool reverse, T* y) {
  switch (scan) {
  case Scan::sum:
    return ScanRows<Scan::sum>(a, b, n, reverse, y);
  case Scan::product:
    return ScanRows<Scan::product>(a, b, n, reverse, y);
  case Scan::linear:
    return ScanRows<Scan::linear>(a, b, n, reverse, y);
  }
}

void ScanRowsF32(Scan scan, const float* a, const float* b, std::int64_t n, bool reverse, float* y) {
  ScanRowsOf(scan, a, b, n, reverse, y);
}
void ScanRowsF64(Scan scan, const double* a, const double* b, std::int64_t n, bool reverse, double* y) {
  ScanRowsOf(scan, a, b, n, reverse, y);
}

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(ScanRowsF32);
HWY_EXPORT(ScanRowsF64);

namespace reduce {

template <> void scan_rows(Scan scan, const float* a, const float* b, std::int64_t n, bool reverse, float* y) {
  HWY_DYNAMIC_DISPATCH(ScanRowsF32)(scan, a, b, n, reverse, y);
}
template <> void scan_rows(Scan scan, const double* a, const double* b, std::int64_t n, bool reverse, double* y) {
  HWY_DYNAMIC_DISPATCH(ScanRowsF64)(scan, a, b, n, reverse, y);
}

} // namespace reduce
} // namespace eg
#endif
