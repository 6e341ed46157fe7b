// tril and triu on a device.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

namespace eg::cuda {
namespace {

template <class T> __global__ void triangle_kernel(device::TriangleJob job) {
  const T* const x = static_cast<const T*>(job.x);
  T* const y = static_cast<T*>(job.y);
  for (std::int64_t i = first_element(); i < job.count; i += element_step()) {
    const std::int64_t right = i % job.columns - i / job.columns % job.rows;
    const bool kept = job.lower ? right <= job.diagonal : right >= job.diagonal;
    y[i] = kept ? x[i] : T{};
  }
}

} // namespace

Failure triangle(Queue queue, const device::TriangleJob& job) {
  return visit_size(job.size, [&]<class T>() -> Failure {
    GPU_LAUNCH(triangle_kernel<T>, elements_grid(job.count), elements_block, 0, queue.stream, job);
    return nullptr;
  });
}

} // namespace eg::cuda
