// The loops of cutting numbers into slices, in double lanes.

#include "core/ops/matmul/exact_slices.h"

#include <cmath>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/matmul/exact_simd.cpp"
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

/// `count` of the n numbers, from j on; parts[s] is what was written.
template <int slices>
HWY_INLINE void CutLanes(Doubles d, const Cut& cut, Lanes x, const Lanes* rounders, std::int64_t j, std::size_t count,
                         Lanes* parts) {
  double* to = cut.to + j;
  HWY_UNROLL(4)
  for (int s = 0; s < slices; ++s, to += cut.slice_size) {
    parts[s] = hn::Sub(hn::Add(x, rounders[s]), rounders[s]);
    x = hn::Sub(x, parts[s]);
    Put(d, parts[s], to, count);
  }
}

template <int slices> HWY_INLINE void SetRounders(Doubles d, int bits, Lanes* rounders) {
  for (int s = 0; s < slices; ++s) rounders[s] = hn::Set(d, std::ldexp(1.5, 52 - (s + 1) * bits));
}

/// f(j, count) for n numbers, a vector at a time.
template <class F> HWY_INLINE void EachVector(std::int64_t n, F&& f) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Doubles()));
  std::int64_t j = 0;
  for (; j + lanes <= n; j += lanes) f(j, static_cast<std::size_t>(lanes));
  if (j < n) f(j, static_cast<std::size_t>(n - j));
}

template <int slices, class T> void CutLine(const Cut& cut, const T* x, double factor, double* squares) {
  const Doubles d;
  Lanes rounders[slices], sums[slices];
  SetRounders<slices>(d, cut.bits, rounders);
  for (auto& sum : sums) sum = hn::Zero(d);
  const auto times = hn::Set(d, factor);
  EachVector(cut.n, [&](std::int64_t j, std::size_t count) HWY_ATTR {
    Lanes parts[slices];
    CutLanes<slices>(d, cut, hn::Mul(Widened(d, x + j, count), times), rounders, j, count, parts);
    HWY_UNROLL(4)
    for (int s = 0; s < slices; ++s) sums[s] = hn::MulAdd(parts[s], parts[s], sums[s]);
  });
  for (int s = 0; s < slices; ++s) squares[s] += hn::GetLane(hn::SumOfLanes(d, sums[s]));
}

template <int slices, class T>
void CutAcross(const Cut& cut, const T* x, const double* factors, double* squares, std::int64_t step) {
  const Doubles d;
  Lanes rounders[slices];
  SetRounders<slices>(d, cut.bits, rounders);
  EachVector(cut.n, [&](std::int64_t j, std::size_t count) HWY_ATTR {
    Lanes parts[slices];
    CutLanes<slices>(d, cut, hn::Mul(Widened(d, x + j, count), Widened(d, factors + j, count)), rounders, j, count,
                     parts);
    double* sum = squares + j;
    HWY_UNROLL(4)
    for (int s = 0; s < slices; ++s, sum += step)
      Put(d, hn::MulAdd(parts[s], parts[s], Widened(d, sum, count)), sum, count);
  });
}

#define EG_CUT_KERNELS(SUFFIX, T)                                                                                      \
  void CutLine##SUFFIX(const Cut& cut, const T* x, double factor, double* squares) {                                   \
    return cut.slices == 3 ? CutLine<3>(cut, x, factor, squares) : CutLine<4>(cut, x, factor, squares);                \
  }                                                                                                                    \
  void CutAcross##SUFFIX(const Cut& cut, const T* x, const double* factors, double* squares, std::int64_t step) {      \
    return cut.slices == 3 ? CutAcross<3>(cut, x, factors, squares, step)                                              \
                           : CutAcross<4>(cut, x, factors, squares, step);                                             \
  }
EG_CUT_KERNELS(F32, float)
EG_CUT_KERNELS(F64, double)
#undef EG_CUT_KERNELS

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

#define EG_CUT_ENTRIES(SUFFIX, T)                                                                                      \
  HWY_EXPORT(CutLine##SUFFIX);                                                                                         \
  HWY_EXPORT(CutAcross##SUFFIX);                                                                                       \
  template <> void exact_slices::cut_line(const exact_slices::Cut& cut, const T* x, double factor, double* squares) {  \
    HWY_DYNAMIC_DISPATCH(CutLine##SUFFIX)(cut, x, factor, squares);                                                    \
  }                                                                                                                    \
  template <>                                                                                                          \
  void exact_slices::cut_across(const exact_slices::Cut& cut, const T* x, const double* factors, double* squares,      \
                                std::int64_t step) {                                                                   \
    HWY_DYNAMIC_DISPATCH(CutAcross##SUFFIX)(cut, x, factors, squares, step);                                           \
  }
EG_CUT_ENTRIES(F32, float)
EG_CUT_ENTRIES(F64, double)
#undef EG_CUT_ENTRIES

} // namespace eg
#endif
