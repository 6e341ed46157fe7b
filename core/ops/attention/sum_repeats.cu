// The gradient of a mask on a device: score gradients summed over what the mask repeats.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

#include <cstdint>

namespace eg::cuda {
namespace {

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
