// The update rules, averages of weights, sums and norms of gradients on a device, with the CPU's bits.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/update.cu"
#include "core/simd/simd-inl.h"

#include "optim/kernels-inl.h"

namespace eg::cuda {
namespace {

using device::SquaresJob;
using device::UpdatePart;
using device::UpdateParts;

namespace lanes = optim::HWY_NAMESPACE;

/// The CPU's step of a rule, for one element of a part.
template <class T> __device__ void take_step(const device::SgdNumbers& n, const UpdatePart& p, std::int64_t i) {
  T* const v = p.state[0] == nullptr ? nullptr : static_cast<T*>(p.state[0]) + i;
  lanes::Sgd<Reduction::fast>(n, static_cast<T*>(p.parameter) + i, v, static_cast<const T*>(p.gradient) + i, 1);
}
template <class T> __device__ void take_step(const device::AdamNumbers& n, const UpdatePart& p, std::int64_t i) {
  lanes::Adam<Reduction::fast>(n, static_cast<T*>(p.parameter) + i, static_cast<T*>(p.state[0]) + i,
                               static_cast<T*>(p.state[1]) + i, static_cast<const T*>(p.gradient) + i, 1);
}
template <class T> __device__ void take_step(const device::RmsPropNumbers& n, const UpdatePart& p, std::int64_t i) {
  T* const b = p.state[1] == nullptr ? nullptr : static_cast<T*>(p.state[1]) + i;
  lanes::RmsProp<Reduction::fast>(n, static_cast<T*>(p.parameter) + i, static_cast<T*>(p.state[0]) + i, b,
                                  static_cast<const T*>(p.gradient) + i, 1);
}
template <class T> __device__ void take_step(const device::LionNumbers& n, const UpdatePart& p, std::int64_t i) {
  lanes::Lion<Reduction::fast>(n, static_cast<T*>(p.parameter) + i, static_cast<T*>(p.state[0]) + i,
                               static_cast<const T*>(p.gradient) + i, 1);
}

/// Of ApproachJob.
struct Share {
  double value;
};
template <class T> __device__ void take_step(const Share& share, const UpdatePart& p, std::int64_t i) {
  T& average = static_cast<T*>(p.parameter)[i];
  average += static_cast<T>(share.value) * (static_cast<const T*>(p.gradient)[i] - average);
}

/// Of ScaledSumJob. The product is that of the row affine: a fused addition of zero makes -0 to +0.
struct Scale {
  double value;
  bool scales, adds;
};
__device__ inline float affine(float x, float scale) { return fmaf(x, scale, 0.0F); }
__device__ inline double affine(double x, double scale) { return fma(x, scale, 0.0); }
template <class T> __device__ void take_step(const Scale& scale, const UpdatePart& p, std::int64_t i) {
  T& to = static_cast<T*>(p.parameter)[i];
  T term = static_cast<const T*>(p.gradient)[i];
  if (scale.scales) term = affine(term, static_cast<T>(scale.value));
  to = scale.adds ? to + term : term;
}

/// Row y of the grid has part y.
template <class T, class Numbers> __global__ void update_kernel(Numbers numbers, UpdateParts parts) {
  const UpdatePart& part = parts.part[blockIdx.y];
  for (std::int64_t i = first_element(); i < part.count; i += element_step()) take_step<T>(numbers, part, i);
}

/// Blocks for parts of so many elements each at most, and a row of the grid for each part.
dim3 parts_grid(const UpdateParts& parts, dim3 (*grid_of)(std::int64_t)) {
  std::int64_t most = 0;
  for (int k = 0; k < parts.parts; ++k) most = parts.part[k].count > most ? parts.part[k].count : most;
  dim3 grid = grid_of(most);
  grid.y = static_cast<unsigned>(parts.parts);
  return grid;
}

template <class Numbers> Failure start_update(Queue queue, const Numbers& numbers, const UpdateParts& parts) {
  return visit_floating_type(parts.type, [&]<class T>() -> Failure {
    GPU_LAUNCH((update_kernel<T, Numbers>), parts_grid(parts, elements_grid), elements_block, 0, queue.stream, numbers,
               parts);
    return nullptr;
  });
}

constexpr unsigned sums_of_chunk = 8;                                ///< partial sums
constexpr unsigned chunks_of_block = elements_block / sums_of_chunk; ///< at a time

dim3 chunks_grid(std::int64_t count) {
  constexpr std::int64_t in_block = SquaresJob::chunk * chunks_of_block;
  return dim3(static_cast<unsigned>((count + in_block - 1) / in_block));
}

/// Eight threads a chunk, one for each of its partial sums, whose places follow each other by 8.
template <class T> __global__ void squares_kernel(UpdateParts parts) {
  GPU_SHARED(partial, double[elements_block]);
  const UpdatePart& part = parts.part[blockIdx.y];
  const T* const x = static_cast<const T*>(part.gradient);
  const unsigned sum = threadIdx.x % sums_of_chunk;
  const std::int64_t chunk = static_cast<std::int64_t>(blockIdx.x) * chunks_of_block + threadIdx.x / sums_of_chunk;
  const std::int64_t begin = chunk * SquaresJob::chunk;
  const std::int64_t end = begin + SquaresJob::chunk < part.count ? begin + SquaresJob::chunk : part.count;
  double own = 0.0;
  for (std::int64_t i = begin + sum; i < end; i += sums_of_chunk)
    own += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  partial[threadIdx.x] = own;
  __syncthreads();
  if (sum != 0 || begin >= part.count) return;
  const double* const s = partial + threadIdx.x;
  static_cast<double*>(part.parameter)[chunk] = ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

} // namespace

Failure update_sgd(Queue queue, const device::SgdJob& job) { return start_update(queue, job.numbers, job.parts); }
Failure update_adam(Queue queue, const device::AdamJob& job) { return start_update(queue, job.numbers, job.parts); }
Failure update_rmsprop(Queue queue, const device::RmsPropJob& job) {
  return start_update(queue, job.numbers, job.parts);
}
Failure update_lion(Queue queue, const device::LionJob& job) { return start_update(queue, job.numbers, job.parts); }
Failure approach(Queue queue, const device::ApproachJob& job) {
  return start_update(queue, Share{job.share}, job.parts);
}

Failure scaled_sum(Queue queue, const device::ScaledSumJob& job) {
  return start_update(queue, Scale{job.scale, job.scales, job.adds}, job.parts);
}

Failure squares(Queue queue, const SquaresJob& job) {
  return visit_floating_type(job.parts.type, [&]<class T>() -> Failure {
    GPU_LAUNCH(squares_kernel<T>, parts_grid(job.parts, chunks_grid), elements_block, 0, queue.stream, job.parts);
    return nullptr;
  });
}

} // namespace eg::cuda
