// layer_norm, rms_norm and their gradients on a device: a warp or a block for each row, whose arithmetic is in double.

#include "core/cuda/kernels.h"
#include "core/cuda/team.h"

#include "core/ops/layer_norm/kernels.h"

#include <cmath>

namespace eg::cuda {
namespace {

using device::NormBackwardJob;
using device::NormJob;

constexpr unsigned columns_block = 128;

/// xh = (x scale - mean) rstd. The scale is 1, or a power of two for rows whose squares leave double or lose their
/// digits.
struct Statistics {
  double scale, mean, rstd;

  template <class T> __device__ double standardised(T x) const {
    return (static_cast<double>(x) * scale - mean) * rstd;
  }
};

/// Mean and mean square of one row, times the scale.
template <bool centred, bool is_block, class T>
__device__ Statistics with_scale(const Team<is_block>& team, const T* x, std::int64_t n, double scale, double& square) {
  const auto count = static_cast<double>(n);
  double total = 0;
  if constexpr (centred) {
    for (std::int64_t j = team.place(); j < n; j += team.size) total += static_cast<double>(x[j]) * scale;
    total = team.sum(total);
  }
  const double mean = total / count;
  double squares = 0;
  for (std::int64_t j = team.place(); j < n; j += team.size) {
    const double part = static_cast<double>(x[j]) * scale - mean;
    squares += part * part;
  }
  square = team.sum(squares) / count;
  return {scale, mean, 0};
}

template <bool centred, bool is_block, class T>
__device__ Statistics statistics(const Team<is_block>& team, const T* x, std::int64_t n, double eps) {
  double square = 0;
  Statistics row = with_scale<centred>(team, x, n, 1.0, square);
  if (!norm_kernels::keeps_digits(square + eps)) { // the same in all threads of the team
    double largest = 0;
    for (std::int64_t j = team.place(); j < n; j += team.size) {
      const double size = fabs(static_cast<double>(x[j]));
      largest = size > largest ? size : largest;
    }
    largest = team.joined(largest, 0.0, [](double a, double b) { return a > b ? a : b; });
    if (largest > 0 && largest < INFINITY) {
      const int exponent = ilogb(largest) < -1020 ? -1020 : ilogb(largest);
      row = with_scale<centred>(team, x, n, ldexp(1.0, -exponent), square);
      eps = ldexp(eps, -2 * exponent);
    }
  }
  row.rstd = 1.0 / sqrt(square + eps);
  return row;
}

template <class T> __device__ double element(const T* of, std::int64_t j, double otherwise) {
  return of != nullptr ? static_cast<double>(of[j]) : otherwise;
}

template <bool centred, bool is_block, class T>
__global__ void norm_kernel(const T* x, const T* gamma, const T* beta, T* y, std::int64_t rows, std::int64_t n,
                            double eps) {
  GPU_SHARED(room, TeamRoom);
  const Team<is_block> team{room};
  for (std::int64_t r = team.first_row(); r < rows; r += team.row_step()) {
    const T* const from = x + r * n;
    const Statistics row = statistics<centred>(team, from, n, eps);
    for (std::int64_t j = team.place(); j < n; j += team.size)
      y[r * n + j] = static_cast<T>(row.standardised(from[j]) * element(gamma, j, 1.0) + element(beta, j, 0.0));
  }
}

template <bool centred, bool is_block, class T>
__global__ void norm_backward_kernel(const T* x, const T* gamma, const T* g, T* dx, double* kept, std::int64_t rows,
                                     std::int64_t n, double eps) {
  GPU_SHARED(room, TeamRoom);
  const Team<is_block> team{room};
  const auto count = static_cast<double>(n);
  for (std::int64_t r = team.first_row(); r < rows; r += team.row_step()) {
    const T *const from = x + r * n, *const cotangent = g + r * n;
    const Statistics row = statistics<centred>(team, from, n, eps);
    double total = 0, inner = 0;
    for (std::int64_t j = team.place(); j < n; j += team.size) {
      const double gh = static_cast<double>(cotangent[j]) * element(gamma, j, 1.0);
      total += gh;
      inner += gh * row.standardised(from[j]);
    }
    const double mean_gh = centred ? team.sum(total) / count : 0.0;
    const double mean_inner = team.sum(inner) / count;
    for (std::int64_t j = team.place(); j < n; j += team.size) {
      const double gh = static_cast<double>(cotangent[j]) * element(gamma, j, 1.0);
      const double sloped = row.rstd * (gh - mean_gh - row.standardised(from[j]) * mean_inner);
      dx[r * n + j] = static_cast<T>(sloped * row.scale);
    }
    if (kept != nullptr && team.place() == 0) {
      kept[3 * r] = row.scale;
      kept[3 * r + 1] = row.mean;
      kept[3 * r + 2] = row.rstd;
    }
  }
}

/// partial[0][chunk][j] = sum of g xh over the rows of a chunk, partial[1][chunk][j] = sum of g.
template <class T>
__global__ void parameters_kernel(const T* x, const T* g, const double* kept, double* partial, std::int64_t rows,
                                  std::int64_t n, std::int64_t chunk) {
  const std::int64_t j = first_element();
  if (j >= n) return;
  const std::int64_t first = blockIdx.y * chunk, end = min(rows, first + chunk);
  double to_gamma = 0, to_beta = 0;
  for (std::int64_t r = first; r < end; ++r) {
    const Statistics row{kept[3 * r], kept[3 * r + 1], kept[3 * r + 2]};
    const double cotangent = g[r * n + j];
    to_gamma += cotangent * row.standardised(x[r * n + j]);
    to_beta += cotangent;
  }
  partial[blockIdx.y * n + j] = to_gamma;
  partial[(static_cast<std::int64_t>(gridDim.y) + blockIdx.y) * n + j] = to_beta;
}

/// The sums of the chunks: a warp for each element of dgamma, then of dbeta where it is given.
template <class T>
__global__ void join_parameters(const double* partial, T* dgamma, T* dbeta, std::int64_t n, std::int64_t chunks) {
  GPU_SHARED(room, TeamRoom);
  const Team<false> team{room};
  const std::int64_t all = dbeta != nullptr ? 2 * n : n;
  for (std::int64_t i = team.first_row(); i < all; i += team.row_step()) {
    const double* const from = partial + i / n * chunks * n + i % n;
    double total = 0;
    for (std::int64_t c = team.place(); c < chunks; c += team.size) total += from[c * n];
    total = team.sum(total);
    if (team.place() == 0) (i < n ? dgamma : dbeta)[i % n] = static_cast<T>(total);
  }
}

template <bool centred, class T> Failure start(Queue queue, const NormJob& job) {
  return visit_team(job.n, [&]<bool is_block>() -> Failure {
    GPU_LAUNCH((norm_kernel<centred, is_block, T>), team_grid(job.rows, is_block), team_block, 0, queue.stream,
               static_cast<const T*>(job.x), static_cast<const T*>(job.gamma), static_cast<const T*>(job.beta),
               static_cast<T*>(job.y), job.rows, job.n, job.eps);
    return nullptr;
  });
}

template <bool centred, class T> Failure start(Queue queue, const NormBackwardJob& job) {
  const T *const x = static_cast<const T*>(job.x), *const g = static_cast<const T*>(job.g);
  const Failure failure = visit_team(job.n, [&]<bool is_block>() -> Failure {
    GPU_LAUNCH((norm_backward_kernel<centred, is_block, T>), team_grid(job.rows, is_block), team_block, 0, queue.stream,
               x, static_cast<const T*>(job.gamma), g, static_cast<T*>(job.dx), job.statistics, job.rows, job.n,
               job.eps);
    return nullptr;
  });
  if (failure != nullptr || job.dgamma == nullptr) return failure;
  const dim3 grid(static_cast<unsigned>((job.n + columns_block - 1) / columns_block),
                  static_cast<unsigned>(job.chunks));
  GPU_LAUNCH(parameters_kernel<T>, grid, columns_block, 0, queue.stream, x, g, job.statistics, job.partial, job.rows,
             job.n, job.chunk);
  GPU_LAUNCH(join_parameters<T>, team_grid(2 * job.n, false), team_block, 0, queue.stream, job.partial,
             static_cast<T*>(job.dgamma), static_cast<T*>(job.dbeta), job.n, job.chunks);
  return nullptr;
}

} // namespace

Failure norm(Queue queue, const NormJob& job) {
  return visit_floating_type(
      job.type, [&]<class T>() { return job.centred ? start<true, T>(queue, job) : start<false, T>(queue, job); });
}

Failure norm_backward(Queue queue, const NormBackwardJob& job) {
  return visit_floating_type(
      job.type, [&]<class T>() { return job.centred ? start<true, T>(queue, job) : start<false, T>(queue, job); });
}

} // namespace eg::cuda
