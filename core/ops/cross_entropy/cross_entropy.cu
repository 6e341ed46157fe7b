// cross_entropy and its gradient on a device: a warp or a block for each row, then one block for the loss.

#include "core/cuda/kernels.h"
#include "core/cuda/report.h"
#include "core/cuda/runtime.h"
#include "core/cuda/team.h"

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/cross_entropy/cross_entropy.cu"
#include "core/simd/simd-inl.h"

namespace eg::cuda {
namespace {

using device::CrossEntropyBackwardJob;
using device::CrossEntropyJob;
using device::CrossEntropyRows;
using device::KernelError;

template <class T> __device__ T exp_of(T x) {
  const hwy::HWY_NAMESPACE::ScalableTag<T> d;
  return HWY_NAMESPACE::Exp(d, x);
}

/// True for a row that counts. One thread of the team reports a label outside the range.
__device__ inline bool counts(const CrossEntropyRows& in, std::int64_t row, bool reports, KernelError* error) {
  const std::int64_t label = in.labels[row];
  if (label == in.ignore) return false;
  if (label >= 0 && label < in.classes) return true;
  if (reports) report(error, in.row, {device::Refused::label, label, in.classes, row, 0});
  return false;
}

/// The largest logit and its first place; a NaN is larger than all.
struct Peak {
  double value;
  std::int64_t place;

  __device__ static Peak join(Peak a, Peak b) {
    if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;
    const bool a_wins = a.value > b.value || (a.value != a.value && b.value == b.value);
    const bool b_wins = b.value > a.value || (b.value != b.value && a.value == a.value);
    if (a_wins || b_wins) return a_wins ? a : b;
    return a.place < b.place ? a : b;
  }
};

/// The loss of one row. log sum exp is that of the largest and log(1 + the others), which keeps the digits of a row
/// that is nearly certain.
template <bool is_block, class T>
__device__ double row_loss(const Team<is_block>& team, const T* x, std::int64_t n, std::int64_t label, double smoothing,
                           Peak& peak, double& log_total) {
  const Peak none{-INFINITY, -1};
  peak = none;
  for (std::int64_t j = team.place(); j < n; j += team.size) peak = Peak::join(peak, {static_cast<double>(x[j]), j});
  peak = team.joined(peak, none, [](const Peak& a, const Peak& b) { return Peak::join(a, b); });
  const auto largest = static_cast<T>(peak.value);
  double others = 0;
  for (std::int64_t j = team.place(); j < n; j += team.size)
    if (j != peak.place) others += exp_of(x[j] - largest);
  log_total = log1p(team.sum(others));
  if (const double at_peak = peak.value - peak.value; at_peak != 0) log_total = at_peak; // NaN, as on the CPU
  double loss = (1.0 - smoothing) * (log_total - (static_cast<double>(x[label]) - peak.value));
  if (smoothing == 0) return loss;
  const double unit = sizeof(T) == 8 ? 0x1p-64 : 1.0; // more classes than 2^63 there are not
  double below = 0;
  for (std::int64_t j = team.place(); j < n; j += team.size)
    below += static_cast<double>(x[j]) * unit - peak.value * unit;
  loss += smoothing * (log_total - team.sum(below) / static_cast<double>(n) / unit);
  return loss;
}

template <bool is_block, class T> __global__ void row_loss_kernel(CrossEntropyJob job, KernelError* error) {
  GPU_SHARED(room, TeamRoom);
  const Team<is_block> team{room};
  const CrossEntropyRows& in = job.in;
  for (std::int64_t r = team.first_row(); r < in.rows; r += team.row_step()) {
    const std::int64_t label = in.labels[r];
    Peak peak{0, 0};
    double loss = 0, log_total = 0;
    if (counts(in, r, team.place() == 0, error))
      loss = row_loss(team, static_cast<const T*>(in.logits) + r * in.classes, in.classes, label, in.smoothing, peak,
                      log_total);
    if (team.place() != 0) continue;
    static_cast<T*>(job.largest)[r] = static_cast<T>(peak.value);
    static_cast<T*>(job.log_total)[r] = static_cast<T>(log_total);
    if (in.by_row)
      static_cast<T*>(job.loss)[r] = static_cast<T>(loss);
    else
      job.losses[r] = loss;
  }
}

/// 1, or for a mean 1 over the number of rows that count (0 of none).
__device__ inline double row_factor(const Team<true>& team, const CrossEntropyRows& in) {
  if (!in.is_mean) return 1;
  double counted = 0;
  for (std::int64_t r = team.place(); r < in.rows; r += team.size) counted += in.labels[r] != in.ignore ? 1 : 0;
  counted = team.sum(counted);
  return counted > 0 ? 1.0 / counted : 0.0;
}

/// One block. A sum that leaves double is taken of losses divided by a power of two.
template <class T> __global__ void joined_loss_kernel(CrossEntropyRows in, const double* losses, T* loss) {
  GPU_SHARED(room, TeamRoom);
  const Team<true> team{room};
  constexpr double unit = 0x1p-64;
  const double factor = row_factor(team, in);
  double total = 0, small = 0;
  for (std::int64_t r = team.place(); r < in.rows; r += team.size) {
    total += losses[r];
    small += losses[r] * unit;
  }
  total = team.sum(total) * factor;
  small = team.sum(small) * factor;
  if (team.place() == 0) *loss = static_cast<T>(std::isfinite(total) ? total : small / unit);
}

template <class T> __global__ void factor_kernel(CrossEntropyRows in, double* factor) {
  GPU_SHARED(room, TeamRoom);
  const Team<true> team{room};
  const double of_rows = row_factor(team, in);
  if (team.place() == 0) *factor = of_rows;
}

/// One row's numbers: d_j = weight (p_j - t_j) + dlog p_j with p_j = exp((x_j - largest) - log_total).
template <class T> struct Row { T largest, log_total, weight, dlog, smoothing, spread; };

template <class T> __device__ T gradient_at(T x, bool is_label, const Row<T>& row) {
  const T exponent = (x - row.largest) - row.log_total;
  if (is_label && exponent > T{-0.25}) { // p - 1 without the loss of digits near p = 1
    const T rest = row.dlog == T{0} ? T{0} : static_cast<T>(row.dlog * exp(exponent));
    return static_cast<T>(row.weight * (expm1(exponent) + row.smoothing) - row.spread + rest);
  }
  const hwy::HWY_NAMESPACE::ScalableTag<T> d;
  const T both = hwy::HWY_NAMESPACE::MulAdd(HWY_NAMESPACE::Exp(d, exponent), row.weight + row.dlog, -row.spread);
  return is_label ? both - row.weight * (T{1} - row.smoothing) : both;
}

template <bool is_block, class T> __global__ void row_gradient_kernel(CrossEntropyBackwardJob job, KernelError* error) {
  GPU_SHARED(room, TeamRoom);
  const Team<is_block> team{room};
  const CrossEntropyRows& in = job.in;
  const auto factor = static_cast<T>(job.factor != nullptr ? *job.factor : 1.0);
  const T* const g = static_cast<const T*>(job.g);
  for (std::int64_t r = team.first_row(); r < in.rows; r += team.row_step()) {
    const std::int64_t label = in.labels[r];
    const T* const x = static_cast<const T*>(in.logits) + r * in.classes;
    T* const dx = static_cast<T*>(job.dlogits) + r * in.classes;
    const bool is_counted = counts(in, r, team.place() == 0, error);
    Row<T> row{};
    row.largest = static_cast<const T*>(job.largest)[r];
    row.log_total = static_cast<const T*>(job.log_total)[r];
    row.weight = factor * g[in.by_row ? r : 0];
    row.dlog = job.dlog != nullptr ? static_cast<const T*>(job.dlog)[r] : T{0};
    row.smoothing = static_cast<T>(in.smoothing);
    row.spread = row.weight * row.smoothing / static_cast<T>(in.classes);
    for (std::int64_t j = team.place(); j < in.classes; j += team.size)
      dx[j] = is_counted ? gradient_at(x[j], j == label, row) : T{0};
  }
}

} // namespace

Failure cross_entropy(Queue queue, const CrossEntropyJob& job) {
  return visit_floating_type(job.in.type, [&]<class T>() -> Failure {
    const Failure failure = visit_team(job.in.classes, [&]<bool is_block>() -> Failure {
      if (job.in.rows > 0)
        GPU_LAUNCH((row_loss_kernel<is_block, T>), team_grid(job.in.rows, is_block), team_block, 0, queue.stream, job,
                   kernel_error(queue.device));
      return nullptr;
    });
    if (failure == nullptr && !job.in.by_row)
      GPU_LAUNCH(joined_loss_kernel<T>, 1, team_block, 0, queue.stream, job.in, job.losses, static_cast<T*>(job.loss));
    return failure;
  });
}

Failure cross_entropy_backward(Queue queue, const CrossEntropyBackwardJob& job) {
  return visit_floating_type(job.in.type, [&]<class T>() {
    if (job.factor != nullptr) GPU_LAUNCH(factor_kernel<T>, 1, team_block, 0, queue.stream, job.in, job.factor);
    return visit_team(job.in.classes, [&]<bool is_block>() -> Failure {
      GPU_LAUNCH((row_gradient_kernel<is_block, T>), team_grid(job.in.rows, is_block), team_block, 0, queue.stream, job,
                 kernel_error(queue.device));
      return nullptr;
    });
  });
}

} // namespace eg::cuda
