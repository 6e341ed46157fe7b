#include "core/exact/elementary.h"
#include "core/ops/cross_entropy/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/cross_entropy/cross_entropy_simd.cpp"
#include "core/ops/softmax/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg {
namespace HWY_NAMESPACE {
namespace {

using cross_entropy_kernels::RowGradient;
using cross_entropy_kernels::RowLoss;

/// sum_j (x_j - shift), from differences so that large logits lose nothing.
template <class T> HWY_INLINE T RowShiftedSum(const T* x, std::size_t n, T shift) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto offset = hn::Set(d, shift);
  auto s0 = hn::Zero(d), s1 = s0;
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    s0 = hn::Add(s0, hn::Sub(hn::LoadU(d, x + i), offset));
    s1 = hn::Add(s1, hn::Sub(hn::LoadU(d, x + i + lanes), offset));
  }
  for (; i < n; i += lanes) {
    const std::size_t left = n - i < lanes ? n - i : lanes;
    s0 = hn::Add(s0, hn::IfThenElseZero(hn::FirstN(d, left), hn::Sub(LoadUpTo(d, x + i, left), offset)));
  }
  return LaneSum(d, hn::Add(s0, s1));
}

/// The mean of x_j - shift. Differences whose sum leaves the range of T are added again in long double, which holds it.
template <class T> HWY_INLINE T RowShiftedMean(const T* x, std::size_t n, T shift) {
  const T total = RowShiftedSum(x, n, shift);
  if (std::isfinite(total)) return total / static_cast<T>(n);
  long double wide = 0.0L;
  for (std::size_t i = 0; i < n; ++i) wide += static_cast<long double>(x[i]) - static_cast<long double>(shift);
  return static_cast<T>(wide / static_cast<long double>(n));
}

/// The same log of a row that is nearly certain: the 1 of the largest would swallow the digits of the others, which are
/// added without it.
template <class T> HWY_NOINLINE T RowLogOfOthers(const T* x, std::size_t n, T largest) {
  T* const none = nullptr;
  const auto at = static_cast<std::size_t>(std::find(x, x + n, largest) - x);
  const T before = RowExpSum<false>(x, none, at, largest);
  return std::log1p(before + RowExpSum<false>(x + at + 1, none, n - at - 1, largest));
}

/// log sum_j exp(x_j - largest).
template <class T> HWY_INLINE T RowLogTotal(const T* x, std::size_t n, T largest) {
  const T total = RowExpSum<false, Next::fetched>(x, static_cast<T*>(nullptr), n, largest);
  constexpr T nearly_certain = T{1} + T{1} / T{64};
  return total <= nearly_certain ? RowLogOfOthers(x, n, largest) : std::log(total);
}

template <class T> RowLoss<T> Loss(const T* logits, std::int64_t classes, std::int64_t label, T smoothing) {
  const auto n = static_cast<std::size_t>(classes);
  const T largest = RowMax(logits, n);
  const T log_total = RowLogTotal(logits, n, largest);
  T loss = (T{1} - smoothing) * (log_total - (logits[label] - largest));
  if (smoothing != T{0}) loss += smoothing * (log_total - RowShiftedMean(logits, n, largest));
  return {loss, largest, log_total};
}

/// RowExpAffine past the caches: a gradient of many megabytes is not read again before it has left them, and writing
/// around them spares reading the lines first (640x30522 on one thread: 11.2 to 6.3 ms). The arithmetic is the same.
template <Reduction r, class T>
HWY_INLINE void RowExpAffineStreamed(const T* x, T* y, std::size_t n, const ExpAffine<T>& f) {
  const TagOf<T, r> d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(y) / sizeof(T) % lanes;
  const std::size_t head = misaligned == 0 ? 0 : lanes - misaligned;
  RowExpAffine<r>(x, y, head < n ? head : n, f);
  std::size_t i = head;
  for (; i + lanes <= n; i += lanes) hn::Stream(ApplyExpAffine(d, hn::LoadU(d, x + i), f), d, y + i);
  if (i < n) RowExpAffine<r>(x + i, y + i, n - i, f);
  hwy::FlushStream();
}

/// d at the label, not read back: that would wait until the row is stored. p - 1 is one function where p is near 1: a
/// difference would lose the digits of a row that is nearly certain.
template <Reduction r, class T> HWY_INLINE T LabelGradient(T logit, const RowGradient<T>& row, const ExpAffine<T>& f) {
  const auto exp = [](T x) { return r == Reduction::exact ? static_cast<T>(exact::exp(x)) : std::exp(x); };
  const auto expm1 = [](T x) { return r == Reduction::exact ? static_cast<T>(exact::expm1(x)) : std::expm1(x); };
  const T exponent = (logit - row.largest) - row.log_total;
  if (exponent > T{-0.25}) {
    const T rest = row.dlog == T{0} ? T{0} : row.dlog * exp(exponent);
    return row.weight * (expm1(exponent) + row.smoothing) + f.addend + rest;
  }
  const RoundedAs<TagOf<T, r>, hn::CappedTag<T, 1>> one;
  return hn::GetLane(ApplyExpAffine(one, hn::Set(one, logit), f)) - row.weight * (T{1} - row.smoothing);
}

template <Reduction r, class T>
void Gradient(const T* logits, T* d, std::int64_t classes, std::int64_t label, const RowGradient<T>& row) {
  const T spread = row.weight * row.smoothing / static_cast<T>(classes);
  const auto n = static_cast<std::size_t>(classes);
  const ExpAffine<T> f{row.largest, row.log_total, row.weight + row.dlog, -spread};
  constexpr std::size_t streamed_bytes = 32 * 1024;
  if (n * sizeof(T) >= streamed_bytes)
    RowExpAffineStreamed<r>(logits, d, n, f);
  else
    RowExpAffine<r>(logits, d, n, f);
  d[label] = LabelGradient<r>(logits[label], row, f);
}

RowLoss<float> LossF32(const float* x, std::int64_t n, std::int64_t label, float s) { return Loss(x, n, label, s); }
RowLoss<double> LossF64(const double* x, std::int64_t n, std::int64_t label, double s) { return Loss(x, n, label, s); }
template <class T> void GradientNow(const T* x, T* d, std::int64_t n, std::int64_t label, const RowGradient<T>& row) {
  if (reduction() == Reduction::exact)
    Gradient<Reduction::exact>(x, d, n, label, row);
  else
    Gradient<Reduction::fast>(x, d, n, label, row);
}
void GradientF32(const float* x, float* d, std::int64_t n, std::int64_t label, const RowGradient<float>& row) {
  GradientNow(x, d, n, label, row);
}
void GradientF64(const double* x, double* d, std::int64_t n, std::int64_t label, const RowGradient<double>& row) {
  GradientNow(x, d, n, label, row);
}

} // namespace
} // namespace HWY_NAMESPACE
} // namespace eg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(LossF32);
HWY_EXPORT(LossF64);
HWY_EXPORT(GradientF32);
HWY_EXPORT(GradientF64);

namespace cross_entropy_kernels {

RowLoss<float> row_loss(const float* logits, std::int64_t classes, std::int64_t label, float smoothing) {
  return HWY_DYNAMIC_DISPATCH(LossF32)(logits, classes, label, smoothing);
}
RowLoss<double> row_loss(const double* logits, std::int64_t classes, std::int64_t label, double smoothing) {
  return HWY_DYNAMIC_DISPATCH(LossF64)(logits, classes, label, smoothing);
}
void row_gradient(const float* logits, float* d, std::int64_t classes, std::int64_t label,
                  const RowGradient<float>& row) {
  HWY_DYNAMIC_DISPATCH(GradientF32)(logits, d, classes, label, row);
}
void row_gradient(const double* logits, double* d, std::int64_t classes, std::int64_t label,
                  const RowGradient<double>& row) {
  HWY_DYNAMIC_DISPATCH(GradientF64)(logits, d, classes, label, row);
}

} // namespace cross_entropy_kernels
} // namespace eg
#endif
