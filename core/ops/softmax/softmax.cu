// Softmax, log_softmax and their gradients on a device: a warp or a block for each line.

#include "core/cuda/kernels.h"
#include "core/cuda/team.h"

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/softmax/softmax.cu"
#include "core/simd/simd-inl.h"

namespace eg::cuda {
namespace {

using device::MaskedSoftmaxJob;
using device::SoftmaxJob;
using device::SoftmaxKind;

template <class T> __device__ T exp_of(T x) {
  const hwy::HWY_NAMESPACE::ScalableTag<T> d;
  return HWY_NAMESPACE::Exp(d, x);
}

/// Largest of read(j) (NaN where there is one), and sum of exp(read(j) - largest), over j < n.
template <class T> struct ExpSum {
  T largest;
  double total;
};
template <class T, bool is_block, class Read>
__device__ ExpSum<T> exp_sum(const Team<is_block>& team, std::int64_t n, const Read& read) {
  constexpr T least = -std::numeric_limits<T>::infinity();
  T largest = least;
  for (std::int64_t j = team.place(); j < n; j += team.size) {
    const T x = read(j);
    largest = x > largest || x != x ? x : largest;
  }
  largest = team.joined(largest, least, [](T a, T b) { return a > b || a != a ? a : b; });
  double total = 0;
  for (std::int64_t j = team.place(); j < n; j += team.size) total += exp_of(read(j) - largest);
  return {largest, team.sum(total)};
}

template <SoftmaxKind kind, bool is_block, class T>
__global__ void softmax_kernel(const T* a, const T* b, T* out, std::int64_t lines, std::int64_t n, std::int64_t inner) {
  GPU_SHARED(room, TeamRoom);
  const Team<is_block> team{room};
  for (std::int64_t line = team.first_row(); line < lines; line += team.row_step()) {
    const std::int64_t first = line / inner * n * inner + line % inner;
    const T* const x = a + first;
    T* const y = out + first;
    if constexpr (kind == SoftmaxKind::softmax || kind == SoftmaxKind::log_softmax) {
      const auto sum = exp_sum<T>(team, n, [=](std::int64_t j) { return x[j * inner]; });
      const auto share = static_cast<T>(1.0 / sum.total);
      const double log_total = kind == SoftmaxKind::log_softmax ? log(sum.total) : 0.0;
      for (std::int64_t j = team.place(); j < n; j += team.size) {
        if constexpr (kind == SoftmaxKind::softmax)
          y[j * inner] = exp_of(x[j * inner] - sum.largest) * share;
        else
          y[j * inner] = static_cast<T>(static_cast<double>(x[j * inner] - sum.largest) - log_total);
      }
    } else { // x is the softmax or its logarithm
      const T* const g = b + first;
      double total = 0;
      for (std::int64_t j = team.place(); j < n; j += team.size) {
        const double gj = g[j * inner];
        total += kind == SoftmaxKind::softmax_backward ? static_cast<double>(x[j * inner]) * gj : gj;
      }
      total = team.sum(total);
      for (std::int64_t j = team.place(); j < n; j += team.size) {
        const double gj = g[j * inner];
        if constexpr (kind == SoftmaxKind::softmax_backward)
          y[j * inner] = static_cast<T>(static_cast<double>(x[j * inner]) * (gj - total));
        else
          y[j * inner] = static_cast<T>(gj - static_cast<double>(exp_of(x[j * inner])) * total);
      }
    }
  }
}

template <bool is_block, class T> __global__ void masked_softmax_kernel(MaskedSoftmaxJob job) {
  GPU_SHARED(room, TeamRoom);
  const Team<is_block> team{room};
  constexpr T least = -std::numeric_limits<T>::infinity();
  for (std::int64_t row = team.first_row(); row < job.rows; row += team.row_step()) {
    const T* const x = static_cast<const T*>(job.x) + row * job.keys;
    T* const y = static_cast<T*>(job.y) + row * job.keys;
    const std::int64_t seen = job.causal ? row % job.matrix_rows + 1 + job.keys - job.matrix_rows : job.keys;
    const std::int64_t first = job.mask != nullptr ? offsets_at(job.mask_rows, row).at[0] : 0;
    const auto score = [=](std::int64_t j) -> T {
      if (j >= seen) return least;
      if (job.mask == nullptr) return x[j];
      const std::int64_t at = first + j * job.mask_step;
      if (job.mask_is_boolean) return static_cast<const bool*>(job.mask)[at] ? x[j] : x[j] + least; // NaN stays
      return x[j] + static_cast<const T*>(job.mask)[at];
    };
    const auto sum = exp_sum<T>(team, job.keys, score);
    const auto share = static_cast<T>(1.0 / sum.total);
    for (std::int64_t j = team.place(); j < job.keys; j += team.size)
      y[j] = sum.largest == least ? T{0} : exp_of(score(j) - sum.largest) * share;
  }
}

template <SoftmaxKind kind> Failure start(Queue queue, const SoftmaxJob& job) {
  return visit_floating_type(job.type, [&]<class T>() {
    return visit_team(job.extent, [&]<bool is_block>() -> Failure {
      GPU_LAUNCH((softmax_kernel<kind, is_block, T>), team_grid(job.lines, is_block), team_block, 0, queue.stream,
                 static_cast<const T*>(job.a), static_cast<const T*>(job.b), static_cast<T*>(job.out), job.lines,
                 job.extent, job.inner);
      return nullptr;
    });
  });
}

} // namespace

Failure softmax(Queue queue, const SoftmaxJob& job) {
  switch (job.kind) {
  case SoftmaxKind::softmax:
    return start<SoftmaxKind::softmax>(queue, job);
  case SoftmaxKind::softmax_backward:
    return start<SoftmaxKind::softmax_backward>(queue, job);
  case SoftmaxKind::log_softmax:
    return start<SoftmaxKind::log_softmax>(queue, job);
  case SoftmaxKind::log_softmax_backward:
    return start<SoftmaxKind::log_softmax_backward>(queue, job);
  }
  return "there is no such softmax";
}

Failure masked_softmax(Queue queue, const MaskedSoftmaxJob& job) {
  return visit_floating_type(job.type, [&]<class T>() {
    return visit_team(job.keys, [&]<bool is_block>() -> Failure {
      GPU_LAUNCH((masked_softmax_kernel<is_block, T>), team_grid(job.rows, is_block), team_block, 0, queue.stream, job);
      return nullptr;
    });
  });
}

} // namespace eg::cuda
