// Cuts numbers into slices, in double lanes.

#include "core/ops/matmul/exact_slices.h"

#include <cmath>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/matmul/exact_slices_simd.cpp"
#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

using exact_slices::Cut;

using Doubles = hn::ScalableTag<double>;
using Lanes = hn::Vec<Doubles>;

HWY_INLINE Lanes Widened(Doubles d, const double* x, std::size_t count) {
  return count == hn::Lanes(d) ? hn::LoadU(d, x) : LoadUpTo(d, x, count);
}
HWY_INLINE Lanes Widened(Doubles d, const float* x, std::size_t count) {
  const hn::Rebind<float, Doubles> narrow;
  return hn::PromoteTo(d, count == hn::Lanes(d) ? hn::LoadU(narrow, x) : LoadUpTo(narrow, x, count));
}
HWY_INLINE void Put(Doubles d, Lanes y, double* to, std::size_t count) {
  if (count == hn::Lanes(d))
    hn::StoreU(y, d, to);
  else
    StoreUpTo(y, d, to, count);
}

template <int slices> HWY_INLINE void SetRounders(Doubles d, int bits, Lanes* rounders) {
  for (int s = 0; s < slices; ++s) rounders[s] = hn::Set(d, std::ldexp(1.5, 52 - (s + 1) * bits));
}

/// parts[s] = slice s of x.
template <int slices> HWY_INLINE void CutLanes(Lanes x, const Lanes* rounders, Lanes* parts) {
  HWY_UNROLL(4)
  for (int s = 0; s < slices; ++s) {
    parts[s] = hn::Sub(hn::Add(x, rounders[s]), rounders[s]);
    x = hn::Sub(x, parts[s]);
  }
}

/// f(j, count) for n numbers, a vector at a time.
template <class F> HWY_INLINE void EachVector(std::int64_t n, F&& f) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Doubles()));
  std::int64_t j = 0;
  for (; j + lanes <= n; j += lanes) f(j, static_cast<std::size_t>(lanes));
  if (j < n) f(j, static_cast<std::size_t>(n - j));
}

/// Cuts the n numbers x(j, count).
template <int slices, class X> HWY_INLINE void CutAll(const Cut& cut, const X& x) {
  const Doubles d;
  Lanes rounders[slices];
  SetRounders<slices>(d, cut.bits, rounders);
  EachVector(cut.n, [&](std::int64_t j, std::size_t count) HWY_ATTR {
    Lanes parts[slices];
    CutLanes<slices>(x(j, count), rounders, parts);
    double* to = cut.to + j;
    HWY_UNROLL(4)
    for (int s = 0; s < slices; ++s, to += cut.slice_size) Put(d, parts[s], to, count);
  });
}
template <class X> HWY_INLINE void CutAll(const Cut& cut, const X& x) {
  return cut.slices == 3 ? CutAll<3>(cut, x) : CutAll<4>(cut, x);
}

template <class T> void CutLine(const Cut& cut, const T* x, double factor) {
  const Doubles d;
  const auto times = hn::Set(d, factor);
  CutAll(cut, [=](std::int64_t j, std::size_t count) HWY_ATTR { return hn::Mul(Widened(d, x + j, count), times); });
}
template <class T> void CutAcross(const Cut& cut, const T* x, const double* factors) {
  const Doubles d;
  CutAll(cut, [=](std::int64_t j, std::size_t count)
                  HWY_ATTR { return hn::Mul(Widened(d, x + j, count), Widened(d, factors + j, count)); });
}

double SumBySlices(std::int64_t n, int bits, const double* x, const double* y) {
  const Doubles d;
  Lanes rounders[3], sums[3];
  SetRounders<3>(d, bits, rounders);
  for (auto& sum : sums) sum = hn::Zero(d);
  EachVector(n, [&](std::int64_t j, std::size_t count) HWY_ATTR {
    Lanes a[3], b[3];
    CutLanes<3>(Widened(d, x + j, count), rounders, a);
    CutLanes<3>(Widened(d, y + j, count), rounders, b);
    sums[0] = hn::MulAdd(a[0], b[0], sums[0]);
    sums[1] = hn::MulAdd(a[0], b[1], hn::MulAdd(a[1], b[0], sums[1]));
    sums[2] = hn::MulAdd(a[0], b[2], hn::MulAdd(a[1], b[1], hn::MulAdd(a[2], b[0], sums[2])));
  });
  return (hn::GetLane(hn::SumOfLanes(d, sums[2])) + hn::GetLane(hn::SumOfLanes(d, sums[1]))) +
         hn::GetLane(hn::SumOfLanes(d, sums[0]));
}

void CutLineF32(const Cut& cut, const float* x, double factor) { CutLine(cut, x, factor); }
void CutLineF64(const Cut& cut, const double* x, double factor) { CutLine(cut, x, factor); }
void CutAcrossF32(const Cut& cut, const float* x, const double* factors) { CutAcross(cut, x, factors); }
void CutAcrossF64(const Cut& cut, const double* x, const double* factors) { CutAcross(cut, x, factors); }

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg::exact_slices {

#define EG_CUT_ENTRIES(SUFFIX, T)                                                                                      \
  HWY_EXPORT(CutLine##SUFFIX);                                                                                         \
  HWY_EXPORT(CutAcross##SUFFIX);                                                                                       \
  template <> void cut_line(const Cut& cut, const T* x, double factor) {                                               \
    HWY_DYNAMIC_DISPATCH(CutLine##SUFFIX)(cut, x, factor);                                                             \
  }                                                                                                                    \
  template <> void cut_across(const Cut& cut, const T* x, const double* factors) {                                     \
    HWY_DYNAMIC_DISPATCH(CutAcross##SUFFIX)(cut, x, factors);                                                          \
  }
EG_CUT_ENTRIES(F32, float)
EG_CUT_ENTRIES(F64, double)
#undef EG_CUT_ENTRIES

HWY_EXPORT(SumBySlices);
double sum_by_slices(std::int64_t n, int bits, const double* x, const double* y) {
  return HWY_DYNAMIC_DISPATCH(SumBySlices)(n, bits, x, y);
}

} // namespace eg::exact_slices
#endif
