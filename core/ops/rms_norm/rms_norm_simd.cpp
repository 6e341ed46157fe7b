#include "core/ops/layer_norm/dispatch-inl.h"
#include "core/ops/layer_norm/kernels.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/rms_norm/rms_norm_simd.cpp"
#include "core/ops/softmax/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

using norm_kernels::Backward;
using norm_kernels::Forward;

/// 1 / sqrt(mean(x^2) + eps). Squares that leave the range of T are added again in long double, which holds the square
/// of every T.
template <class T> HWY_INLINE T ReciprocalRms(const T* x, std::size_t n, T eps) {
  const T square = RowDot(x, x, n) / static_cast<T>(n) + eps;
  if (norm_kernels::keeps_digits(square)) return T{1} / std::sqrt(square);
  long double total = 0.0L;
  for (std::size_t i = 0; i < n; ++i) total += static_cast<long double>(x[i]) * static_cast<long double>(x[i]);
  return static_cast<T>(1.0L / std::sqrt(total / static_cast<long double>(n) + static_cast<long double>(eps)));
}

template <class T> void ForwardRows(const Forward<T>& job) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto n = static_cast<std::size_t>(job.n);
  const T* x = job.x;
  T* y = job.y;
  const auto one = hn::Set(d, T{1});
  for (std::int64_t row = 0; row < job.rows; ++row, x += n, y += n) {
    const auto r = hn::Set(d, ReciprocalRms(x, n, job.eps));
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      hwy::Prefetch(x + n + i); // of the next row: its first pass would wait for memory
      hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, x + i), r), job.gamma ? hn::LoadU(d, job.gamma + i) : one), d, y + i);
    }
    if (i < n) {
      const auto gamma = job.gamma ? LoadUpTo(d, job.gamma + i, n - i) : one;
      StoreUpTo(hn::Mul(hn::Mul(LoadUpTo(d, x + i, n - i), r), gamma), d, y + i, n - i);
    }
  }
}

/// mean(g gamma x r) over one row.
template <class T> HWY_INLINE T MeanOfProducts(const Backward<T>& job, const T* x, const T* g, T rms) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto n = static_cast<std::size_t>(job.n);
  const auto one = hn::Set(d, T{1});
  const auto r = hn::Set(d, rms);
  auto s0 = hn::Zero(d), s1 = s0;
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto h0 = hn::Mul(hn::LoadU(d, g + i), job.gamma ? hn::LoadU(d, job.gamma + i) : one);
    const auto h1 = hn::Mul(hn::LoadU(d, g + i + lanes), job.gamma ? hn::LoadU(d, job.gamma + i + lanes) : one);
    s0 = hn::MulAdd(h0, hn::Mul(hn::LoadU(d, x + i), r), s0);
    s1 = hn::MulAdd(h1, hn::Mul(hn::LoadU(d, x + i + lanes), r), s1);
  }
  for (; i < n; i += lanes) {
    const std::size_t left = std::min(lanes, n - i);
    const auto h = hn::Mul(LoadUpTo(d, g + i, left), job.gamma ? LoadUpTo(d, job.gamma + i, left) : one);
    s0 = hn::MulAdd(h, hn::Mul(LoadUpTo(d, x + i, left), r), s0);
  }
  return LaneSum(d, hn::Add(s0, s1)) / static_cast<T>(job.n);
}

template <class T> HWY_INLINE void RowBackward(const Backward<T>& job, const T* x, const T* g, T* dx) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto n = static_cast<std::size_t>(job.n);
  const T rms = ReciprocalRms(x, n, job.eps);
  const auto mean = hn::Set(d, MeanOfProducts(job, x, g, rms));
  const auto r = hn::Set(d, rms);
  const auto one = hn::Set(d, T{1});
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hwy::Prefetch(x + n + i); // as ForwardRows does
    hwy::Prefetch(g + n + i);
    const auto xh = hn::Mul(hn::LoadU(d, x + i), r);
    const auto gi = hn::LoadU(d, g + i);
    const auto gh = hn::Mul(gi, job.gamma ? hn::LoadU(d, job.gamma + i) : one);
    hn::StoreU(hn::Mul(r, hn::NegMulAdd(xh, mean, gh)), d, dx + i);
    if (job.dgamma) hn::StoreU(hn::MulAdd(gi, xh, hn::LoadU(d, job.dgamma + i)), d, job.dgamma + i);
  }
  if (const std::size_t left = n - i; left > 0) {
    const auto xh = hn::Mul(LoadUpTo(d, x + i, left), r);
    const auto gi = LoadUpTo(d, g + i, left);
    const auto gh = hn::Mul(gi, job.gamma ? LoadUpTo(d, job.gamma + i, left) : one);
    StoreUpTo(hn::Mul(r, hn::NegMulAdd(xh, mean, gh)), d, dx + i, left);
    if (job.dgamma) StoreUpTo(hn::MulAdd(gi, xh, LoadUpTo(d, job.dgamma + i, left)), d, job.dgamma + i, left);
  }
}

template <class T> void BackwardRows(const Backward<T>& job) {
  for (std::int64_t row = 0; row < job.rows; ++row)
    RowBackward(job, job.x + row * job.n, job.g + row * job.n, job.dx + row * job.n);
}

EG_NORM_KERNELS_OF_TARGET

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {
EG_DISPATCH_NORM(rms_norm_kernels)
} // namespace eg
#endif
