// The steps of attention between its products, on a device: one warp a row of scores.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

#include <cmath>
#include <cstdint>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/attention/scores.cu"
#include "core/simd/simd-inl.h"

namespace eg::cuda {
namespace {

constexpr unsigned row_threads = 128; ///< four rows a block

dim3 rows_grid(std::int64_t rows) {
  constexpr std::int64_t a_block = row_threads / gpu::warp_size, most = 132 * 16;
  const std::int64_t blocks = (rows + a_block - 1) / a_block;
  return dim3(static_cast<unsigned>(blocks < most ? blocks : most));
}

__device__ std::int64_t first_row() { return first_element() / gpu::warp_size; }
__device__ std::int64_t row_step() { return element_step() / gpu::warp_size; }
__device__ int lane_of_row() { return static_cast<int>(threadIdx.x % gpu::warp_size); }

template <class T> __device__ T exp_of(T x) {
  const hwy::HWY_NAMESPACE::ScalableTag<T> d;
  return HWY_NAMESPACE::Exp(d, x);
}

__device__ float log_of(float x) { return logf(x); }
__device__ double log_of(double x) { return log(x); }

template <class T> struct Scores {
  T* s;
  std::int64_t rows, queries, keys, first_head;
  T* lse_to;
  const T* lse_from;
  bool causal;
  const T* mask;
  const bool* seen; ///< a boolean mask
  std::int64_t mask_row, mask_column;
};

/// Row `row` of the scores and what hides its keys.
template <class T> struct ScoresRow {
  T* s;
  std::int64_t count; ///< keys that are not above the diagonal
  const T* mask;
  const bool* seen;
  std::int64_t mask_column;

  __device__ ScoresRow(const Scores<T>& p, const Axes<1>& mask_heads, std::int64_t row) : s(p.s + row * p.keys) {
    const std::int64_t query = row % p.queries, limit = query + 1 + p.keys - p.queries;
    count = !p.causal || limit > p.keys ? p.keys : limit < 0 ? 0 : limit;
    const bool masked = p.mask != nullptr || p.seen != nullptr;
    const std::int64_t begin =
        masked ? offsets_at(mask_heads, p.first_head + row / p.queries).at[0] + query * p.mask_row : 0;
    mask = p.mask == nullptr ? nullptr : p.mask + begin;
    seen = p.seen == nullptr ? nullptr : p.seen + begin;
    mask_column = p.mask_column;
  }
  __device__ T score(std::int64_t key) const {
    if (mask != nullptr) return s[key] + mask[key * mask_column];
    if (seen != nullptr && !seen[key * mask_column]) return s[key] - std::numeric_limits<T>::infinity();
    return s[key];
  }
};

template <class T> __device__ void softmax_row(const Scores<T>& p, const ScoresRow<T>& r, std::int64_t row) {
  const int lane = lane_of_row();
  T largest = -std::numeric_limits<T>::infinity();
  int odd = 0;
  for (std::int64_t j = lane; j < r.count; j += gpu::warp_size) {
    const T x = r.score(j);
    r.s[j] = x;
    largest = x > largest ? x : largest;
    odd |= x != x ? 1 : 0;
  }
  largest = gpu::warp_butterfly(largest, [](T a, T b) { return a > b ? a : b; });
  odd = __any_sync(0xffffffffU, odd);
  const bool hides = p.causal || r.mask != nullptr || r.seen != nullptr;
  if (hides && odd == 0 && largest == -std::numeric_limits<T>::infinity()) { // it sees nothing
    for (std::int64_t j = lane; j < p.keys; j += gpu::warp_size) r.s[j] = 0;
    if (lane == 0) p.lse_to[row] = 0;
    return;
  }
  T total = 0;
  for (std::int64_t j = lane; j < r.count; j += gpu::warp_size) {
    const T e = exp_of(r.s[j] - largest);
    r.s[j] = e;
    total += e;
  }
  total = gpu::warp_butterfly(total, [](T a, T b) { return a + b; });
  const T factor = T(1) / total;
  for (std::int64_t j = lane; j < p.keys; j += gpu::warp_size) r.s[j] = j < r.count ? r.s[j] * factor : T(0);
  if (lane == 0) p.lse_to[row] = largest + log_of(total);
}

template <class T> __global__ void scores_kernel(Scores<T> p, Axes<1> mask_heads) {
  for (std::int64_t row = first_row(); row < p.rows; row += row_step()) {
    const ScoresRow<T> r(p, mask_heads, row);
    if (p.lse_to != nullptr) {
      softmax_row(p, r, row);
    } else {
      const T lse = p.lse_from[row];
      for (std::int64_t j = lane_of_row(); j < p.keys; j += gpu::warp_size)
        r.s[j] = j < r.count ? exp_of(r.score(j) - lse) : T(0);
    }
  }
}

template <class T> struct ScoreGradient {
  const T* s;
  T* ds;
  std::int64_t rows, queries, keys, value_dim;
  const T *g, *y;
  std::int64_t g_row, y_row;
  const T* dlse;
};

template <class T> __global__ void score_gradient_kernel(ScoreGradient<T> p, Axes<2> begins) {
  for (std::int64_t row = first_row(); row < p.rows; row += row_step()) {
    const std::int64_t query = row % p.queries;
    const Offsets<2> begin = offsets_at(begins, row / p.queries);
    const T* const g = p.g + begin.at[0] + query * p.g_row;
    const T* const y = p.y + begin.at[1] + query * p.y_row;
    T delta = 0;
    for (std::int64_t c = lane_of_row(); c < p.value_dim; c += gpu::warp_size) delta += g[c] * y[c];
    delta = gpu::warp_butterfly(delta, [](T a, T b) { return a + b; }) - (p.dlse != nullptr ? p.dlse[row] : T(0));
    for (std::int64_t j = lane_of_row(); j < p.keys; j += gpu::warp_size) {
      const std::int64_t at = row * p.keys + j;
      p.ds[at] = p.s[at] * (p.ds[at] - delta);
    }
  }
}

/// One thread an element of y.
template <class T>
__global__ void sum_few_kernel(const T* x, T* y, std::int64_t count, std::int64_t terms, Axes<1> kept, Axes<1> summed) {
  for (std::int64_t i = first_element(); i < count; i += element_step()) {
    const T* const from = x + offsets_at(kept, i).at[0];
    double total = 0;
    for (std::int64_t j = 0; j < terms; ++j) total += static_cast<double>(from[offsets_at(summed, j).at[0]]);
    y[i] = static_cast<T>(total);
  }
}

/// One block an element of y.
template <class T>
__global__ void sum_many_kernel(const T* x, T* y, std::int64_t count, std::int64_t terms, Axes<1> kept,
                                Axes<1> summed) {
  using Room = double[elements_block / gpu::warp_size];
  GPU_SHARED(room, Room);
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const T* const from = x + offsets_at(kept, i).at[0];
    double total = 0;
    for (std::int64_t j = threadIdx.x; j < terms; j += blockDim.x)
      total += static_cast<double>(from[offsets_at(summed, j).at[0]]);
    total = gpu::block_reduce(total, 0.0, room, [](double a, double b) { return a + b; });
    if (threadIdx.x == 0) y[i] = static_cast<T>(total);
  }
}

} // namespace

Failure attention_scores(Queue queue, const device::AttentionScoresJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    const Scores<T> p{static_cast<T*>(job.scores),
                      job.heads * job.queries,
                      job.queries,
                      job.keys,
                      job.first_head,
                      static_cast<T*>(job.lse_to),
                      static_cast<const T*>(job.lse_from),
                      job.causal,
                      job.mask_is_boolean ? nullptr : static_cast<const T*>(job.mask),
                      job.mask_is_boolean ? static_cast<const bool*>(job.mask) : nullptr,
                      job.mask_row,
                      job.mask_column};
    GPU_LAUNCH(scores_kernel<T>, rows_grid(p.rows), row_threads, 0, queue.stream, p, job.mask_heads);
    return nullptr;
  });
}

Failure score_gradient(Queue queue, const device::ScoreGradientJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    const ScoreGradient<T> p{static_cast<const T*>(job.s),
                             static_cast<T*>(job.ds),
                             job.heads * job.queries,
                             job.queries,
                             job.keys,
                             job.value_dim,
                             static_cast<const T*>(job.g),
                             static_cast<const T*>(job.y),
                             job.g_row,
                             job.y_row,
                             static_cast<const T*>(job.dlse)};
    GPU_LAUNCH(score_gradient_kernel<T>, rows_grid(p.rows), row_threads, 0, queue.stream, p, job.begins);
    return nullptr;
  });
}

Failure sum_repeats(Queue queue, const device::SumRepeatsJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    const std::int64_t count = job.kept.count(), terms = job.summed.count();
    const T* const x = static_cast<const T*>(job.x);
    T* const y = static_cast<T*>(job.y);
    if (terms <= 64)
      GPU_LAUNCH(sum_few_kernel<T>, elements_grid(count), elements_block, 0, queue.stream, x, y, count, terms, job.kept,
                 job.summed);
    else
      GPU_LAUNCH(sum_many_kernel<T>, elements_grid(count * elements_block), elements_block, 0, queue.stream, x, y,
                 count, terms, job.kept, job.summed);
    return nullptr;
  });
}

} // namespace eg::cuda
