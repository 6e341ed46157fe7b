// batch_norm and its gradients on a device: a block for each channel, whose arithmetic is in double.

#include "core/cuda/kernels.h"
#include "core/cuda/team.h"

#include "core/ops/layer_norm/kernels.h"

#include <cmath>

namespace eg::cuda {
namespace {

using device::BatchNormJob;

/// The elements of one channel.
template <class T> struct Channel {
  const T* first;
  std::int64_t inner, sample_step, count;

  __device__ std::int64_t at(std::int64_t i) const { return i / inner * sample_step + i % inner; }
  __device__ double operator[](std::int64_t i) const { return first[at(i)]; }
};

/// xh = (x scale - mean) rstd; the variance of x scale.
struct ChannelStatistics {
  double scale, mean, variance, rstd;

  __device__ double standardised(double x) const { return (x * scale - mean) * rstd; }
};

template <class T> __device__ ChannelStatistics with_scale(const Team<true>& team, const Channel<T>& x, double scale) {
  const auto count = static_cast<double>(x.count);
  double total = 0, squares = 0;
  for (std::int64_t i = team.place(); i < x.count; i += team.size) total += x[i] * scale;
  const double mean = team.sum(total) / count;
  for (std::int64_t i = team.place(); i < x.count; i += team.size) {
    const double centred = x[i] * scale - mean;
    squares += centred * centred;
  }
  return {scale, mean, team.sum(squares) / count, 0};
}

template <class T> __device__ ChannelStatistics statistics(const Team<true>& team, const Channel<T>& x, double eps) {
  ChannelStatistics s = with_scale(team, x, 1.0);
  if (!norm_kernels::keeps_digits(s.variance + eps)) { // the same in all threads
    double largest = 0;
    for (std::int64_t i = team.place(); i < x.count; i += team.size) largest = fmax(largest, fabs(x[i]));
    largest = team.joined(largest, 0.0, [](double a, double b) { return fmax(a, b); });
    if (largest > 0 && largest < INFINITY) {
      const int exponent = ilogb(largest) < -1020 ? -1020 : ilogb(largest);
      s = with_scale(team, x, ldexp(1.0, -exponent));
      eps = ldexp(eps, -2 * exponent);
    }
  }
  s.rstd = 1.0 / sqrt(s.variance + eps);
  return s;
}

template <class T> __device__ double parameter(const void* of, std::int64_t channel, double otherwise) {
  return of != nullptr ? static_cast<double>(static_cast<const T*>(of)[channel]) : otherwise;
}

template <class T> __global__ void batch_norm_kernel(BatchNormJob job) {
  GPU_SHARED(room, TeamRoom);
  const Team<true> team{room};
  for (std::int64_t c = team.first_row(); c < job.channels; c += team.row_step()) {
    const Channel<T> x{static_cast<const T*>(job.x) + c * job.inner, job.inner, job.channels * job.inner,
                       job.samples * job.inner};
    const ChannelStatistics s = statistics(team, x, job.eps);
    const double gamma = parameter<T>(job.gamma, c, 1.0), beta = parameter<T>(job.beta, c, 0.0);
    T* const y = static_cast<T*>(job.y) + c * job.inner;
    for (std::int64_t i = team.place(); i < x.count; i += team.size)
      y[x.at(i)] = static_cast<T>(s.standardised(x[i]) * gamma + beta);
    if (team.place() != 0) continue;
    static_cast<T*>(job.mean)[c] = static_cast<T>(s.mean / s.scale);
    static_cast<T*>(job.variance)[c] = static_cast<T>(s.variance / s.scale / s.scale);
  }
}

template <class T> __global__ void batch_norm_backward_kernel(BatchNormJob job) {
  GPU_SHARED(room, TeamRoom);
  const Team<true> team{room};
  for (std::int64_t c = team.first_row(); c < job.channels; c += team.row_step()) {
    const std::int64_t first = c * job.inner;
    const Channel<T> x{static_cast<const T*>(job.x) + first, job.inner, job.channels * job.inner,
                       job.samples * job.inner};
    const Channel<T> g{static_cast<const T*>(job.g) + first, x.inner, x.sample_step, x.count};
    const ChannelStatistics s = statistics(team, x, job.eps);
    double total = 0, inner = 0;
    for (std::int64_t i = team.place(); i < x.count; i += team.size) {
      total += g[i];
      inner += g[i] * s.standardised(x[i]);
    }
    total = team.sum(total);
    inner = team.sum(inner);
    const double times = parameter<T>(job.gamma, c, 1.0) * s.rstd;
    const double mean_g = total / static_cast<double>(x.count), mean_inner = inner / static_cast<double>(x.count);
    T* const dx = static_cast<T*>(job.y) + first;
    for (std::int64_t i = team.place(); i < x.count; i += team.size)
      dx[x.at(i)] = static_cast<T>(times * (g[i] - mean_g - s.standardised(x[i]) * mean_inner) * s.scale);
    if (team.place() != 0 || job.dgamma == nullptr) continue;
    static_cast<T*>(job.dgamma)[c] = static_cast<T>(inner);
    static_cast<T*>(job.dbeta)[c] = static_cast<T>(total);
  }
}

} // namespace

Failure batch_norm(Queue queue, const BatchNormJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    const dim3 grid = team_grid(job.channels, true);
    if (job.g == nullptr)
      GPU_LAUNCH(batch_norm_kernel<T>, grid, team_block, 0, queue.stream, job);
    else
      GPU_LAUNCH(batch_norm_backward_kernel<T>, grid, team_block, 0, queue.stream, job);
    return nullptr;
  });
}

} // namespace eg::cuda
