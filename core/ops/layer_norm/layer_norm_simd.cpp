#include "core/ops/layer_norm/dispatch-inl.h"
#include "core/ops/layer_norm/kernels.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/layer_norm/layer_norm_simd.cpp"
#include "core/ops/softmax/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg {
namespace HWY_NAMESPACE {
namespace {

using norm_kernels::Backward;
using norm_kernels::Forward;
using norm_kernels::keeps_digits;

/// sum_j (x_j - mean)^2
template <class T> HWY_INLINE T RowSquares(const T* x, std::size_t n, T mean) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto mu = hn::Set(d, mean);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto c0 = hn::Sub(hn::LoadU(d, x + i), mu);
    const auto c1 = hn::Sub(hn::LoadU(d, x + i + lanes), mu);
    const auto c2 = hn::Sub(hn::LoadU(d, x + i + 2 * lanes), mu);
    const auto c3 = hn::Sub(hn::LoadU(d, x + i + 3 * lanes), mu);
    s0 = hn::MulAdd(c0, c0, s0);
    s1 = hn::MulAdd(c1, c1, s1);
    s2 = hn::MulAdd(c2, c2, s2);
    s3 = hn::MulAdd(c3, c3, s3);
  }
  for (; i + lanes <= n; i += lanes) {
    const auto c0 = hn::Sub(hn::LoadU(d, x + i), mu);
    s0 = hn::MulAdd(c0, c0, s0);
  }
  if (i < n) {
    const auto c1 = hn::IfThenElseZero(hn::FirstN(d, n - i), hn::Sub(LoadUpTo(d, x + i, n - i), mu));
    s1 = hn::MulAdd(c1, c1, s1);
  }
  return LaneSum(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

/// Mean and 1 / sqrt(variance + eps) of one row in long double, which holds the square of every T.
struct WideStatistics {
  long double mean, rstd;
};

template <class T> WideStatistics StatisticsOf(const T* x, std::int64_t n, T eps) {
  const auto count = static_cast<long double>(n);
  long double total = 0.0L, squares = 0.0L;
  for (std::int64_t i = 0; i < n; ++i) total += static_cast<long double>(x[i]);
  const long double mean = total / count;
  for (std::int64_t i = 0; i < n; ++i) {
    const long double centred = static_cast<long double>(x[i]) - mean;
    squares += centred * centred;
  }
  return {mean, 1.0L / std::sqrt(squares / count + static_cast<long double>(eps))};
}

/// A row whose squares lose their digits in T.
template <class T> HWY_NOINLINE void ForwardWide(const Forward<T>& job, const T* x, T* y) {
  const WideStatistics row = StatisticsOf(x, job.n, job.eps);
  for (std::int64_t i = 0; i < job.n; ++i) {
    const long double xh = (static_cast<long double>(x[i]) - row.mean) * row.rstd;
    const long double scaled = job.gamma ? xh * static_cast<long double>(job.gamma[i]) : xh;
    y[i] = static_cast<T>(job.beta ? scaled + static_cast<long double>(job.beta[i]) : scaled);
  }
}

template <class T> void ForwardRows(const Forward<T>& job) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto n = static_cast<std::size_t>(job.n);
  const T* x = job.x;
  T* y = job.y;
  const auto one = hn::Set(d, T{1});
  const auto zero = hn::Zero(d);
  for (std::int64_t r = 0; r < job.rows; ++r, x += n, y += n) {
    const T mean = RowSum(x, n) / static_cast<T>(job.n);
    const T variance = RowSquares(x, n, mean) / static_cast<T>(job.n) + job.eps;
    if (!keeps_digits(variance)) {
      ForwardWide(job, x, y);
      continue;
    }
    const auto mu = hn::Set(d, mean);
    const auto rstd = hn::Set(d, T{1} / std::sqrt(variance));
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      hwy::Prefetch(x + n + i); // of the next row: its first pass would wait for memory
      const auto xh = hn::Mul(hn::Sub(hn::LoadU(d, x + i), mu), rstd);
      const auto gamma = job.gamma ? hn::LoadU(d, job.gamma + i) : one;
      const auto beta = job.beta ? hn::LoadU(d, job.beta + i) : zero;
      hn::StoreU(hn::MulAdd(xh, gamma, beta), d, y + i);
    }
    if (i < n) {
      const auto xh = hn::Mul(hn::Sub(LoadUpTo(d, x + i, n - i), mu), rstd);
      const auto gamma = job.gamma ? LoadUpTo(d, job.gamma + i, n - i) : one;
      const auto beta = job.beta ? LoadUpTo(d, job.beta + i, n - i) : zero;
      StoreUpTo(hn::MulAdd(xh, gamma, beta), d, y + i, n - i);
    }
  }
}

/// The three sums that the backward of one row needs: (x - mean)^2, gh and gh (x - mean), with gh = g gamma.
template <class T> struct Moments { T squares, gh, gh_centered; };

template <class T> HWY_INLINE Moments<T> RowMoments(const T* x, const T* g, const T* gamma, std::size_t n, T mean) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto mu = hn::Set(d, mean);
  const auto one = hn::Set(d, T{1});
  auto q0 = hn::Zero(d), q1 = q0, s0 = q0, s1 = q0, p0 = q0, p1 = q0;
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto c0 = hn::Sub(hn::LoadU(d, x + i), mu);
    const auto c1 = hn::Sub(hn::LoadU(d, x + i + lanes), mu);
    const auto h0 = hn::Mul(hn::LoadU(d, g + i), gamma ? hn::LoadU(d, gamma + i) : one);
    const auto h1 = hn::Mul(hn::LoadU(d, g + i + lanes), gamma ? hn::LoadU(d, gamma + i + lanes) : one);
    q0 = hn::MulAdd(c0, c0, q0);
    q1 = hn::MulAdd(c1, c1, q1);
    s0 = hn::Add(s0, h0);
    s1 = hn::Add(s1, h1);
    p0 = hn::MulAdd(h0, c0, p0);
    p1 = hn::MulAdd(h1, c1, p1);
  }
  if (i + lanes <= n) {
    const auto c0 = hn::Sub(hn::LoadU(d, x + i), mu);
    const auto h0 = hn::Mul(hn::LoadU(d, g + i), gamma ? hn::LoadU(d, gamma + i) : one);
    q0 = hn::MulAdd(c0, c0, q0);
    s0 = hn::Add(s0, h0);
    p0 = hn::MulAdd(h0, c0, p0);
    i += lanes;
  }
  if (i < n) {
    const auto c1 = hn::IfThenElseZero(hn::FirstN(d, n - i), hn::Sub(LoadUpTo(d, x + i, n - i), mu));
    const auto h1 = hn::Mul(LoadUpTo(d, g + i, n - i), gamma ? LoadUpTo(d, gamma + i, n - i) : one);
    q1 = hn::MulAdd(c1, c1, q1);
    s1 = hn::Add(s1, h1);
    p1 = hn::MulAdd(h1, c1, p1);
  }
  return {LaneSum(d, hn::Add(q0, q1)), LaneSum(d, hn::Add(s0, s1)), LaneSum(d, hn::Add(p0, p1))};
}

/// What one row's dx needs besides the row: dx = rstd (gh - mean_gh - xh mean_gh_xh).
template <class T> struct RowScalars { T mean, rstd, mean_gh, mean_gh_xh; };

template <class D, class V> HWY_INLINE V RowDx(D d, V xh, V gh, const RowScalars<hn::TFromD<D>>& row) {
  const auto inner = hn::Sub(hn::Sub(gh, hn::Set(d, row.mean_gh)), hn::Mul(xh, hn::Set(d, row.mean_gh_xh)));
  return hn::Mul(hn::Set(d, row.rstd), inner);
}

template <class T>
HWY_INLINE void RowBackward(const Backward<T>& job, const T* x, const T* g, T* dx, const RowScalars<T>& row) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto n = static_cast<std::size_t>(job.n);
  const auto one = hn::Set(d, T{1});
  const auto mu = hn::Set(d, row.mean);
  const auto rstd = hn::Set(d, row.rstd);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hwy::Prefetch(x + n + i); // as ForwardRows does
    hwy::Prefetch(g + n + i);
    const auto xh = hn::Mul(hn::Sub(hn::LoadU(d, x + i), mu), rstd);
    const auto gi = hn::LoadU(d, g + i);
    hn::StoreU(RowDx(d, xh, hn::Mul(gi, job.gamma ? hn::LoadU(d, job.gamma + i) : one), row), d, dx + i);
    if (job.dgamma) {
      hn::StoreU(hn::MulAdd(gi, xh, hn::LoadU(d, job.dgamma + i)), d, job.dgamma + i);
      hn::StoreU(hn::Add(gi, hn::LoadU(d, job.dbeta + i)), d, job.dbeta + i);
    }
  }
  if (const std::size_t left = n - i; left > 0) {
    const auto xh = hn::Mul(hn::Sub(LoadUpTo(d, x + i, left), mu), rstd);
    const auto gi = LoadUpTo(d, g + i, left);
    StoreUpTo(RowDx(d, xh, hn::Mul(gi, job.gamma ? LoadUpTo(d, job.gamma + i, left) : one), row), d, dx + i, left);
    if (job.dgamma) {
      StoreUpTo(hn::MulAdd(gi, xh, LoadUpTo(d, job.dgamma + i, left)), d, job.dgamma + i, left);
      StoreUpTo(hn::Add(gi, LoadUpTo(d, job.dbeta + i, left)), d, job.dbeta + i, left);
    }
  }
}

/// A row whose sums lose their digits in T.
template <class T> HWY_NOINLINE void BackwardWide(const Backward<T>& job, const T* x, const T* g, T* dx) {
  const WideStatistics row = StatisticsOf(x, job.n, job.eps);
  const auto standardised = [&](std::int64_t i) { return (static_cast<long double>(x[i]) - row.mean) * row.rstd; };
  const auto weighted = [&](std::int64_t i) {
    return static_cast<long double>(g[i]) * (job.gamma ? static_cast<long double>(job.gamma[i]) : 1.0L);
  };
  long double total = 0.0L, inner = 0.0L;
  for (std::int64_t i = 0; i < job.n; ++i) {
    total += weighted(i);
    inner += weighted(i) * standardised(i);
  }
  const auto count = static_cast<long double>(job.n);
  for (std::int64_t i = 0; i < job.n; ++i) {
    const long double xh = standardised(i);
    dx[i] = static_cast<T>(row.rstd * (weighted(i) - total / count - xh * (inner / count)));
    if (job.dgamma == nullptr) continue;
    job.dgamma[i] = static_cast<T>(static_cast<long double>(job.dgamma[i]) + static_cast<long double>(g[i]) * xh);
    job.dbeta[i] += g[i];
  }
}

template <class T> void BackwardRows(const Backward<T>& job) {
  const auto n = static_cast<std::size_t>(job.n);
  const T count = static_cast<T>(job.n);
  const T* x = job.x;
  const T* g = job.g;
  T* dx = job.dx;
  for (std::int64_t r = 0; r < job.rows; ++r, x += n, g += n, dx += n) {
    const T mean = RowSum(x, n) / count;
    const Moments<T> m = RowMoments(x, g, job.gamma, n, mean);
    const T variance = m.squares / count + job.eps;
    if (!keeps_digits(variance) || !std::isfinite(m.gh) || !std::isfinite(m.gh_centered)) {
      BackwardWide(job, x, g, dx);
      continue;
    }
    const T rstd = T{1} / std::sqrt(variance);
    RowBackward(job, x, g, dx, {mean, rstd, m.gh / count, m.gh_centered * rstd / count});
  }
}

EG_NORM_KERNELS_OF_TARGET

} // namespace
} // namespace HWY_NAMESPACE
} // namespace eg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {
EG_DISPATCH_NORM(layer_norm_kernels)
} // namespace eg
#endif
