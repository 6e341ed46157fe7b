// Huber's function and its slope on a device.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

#include "core/ops/loss/huber.h"

namespace eg::cuda {
namespace {

template <bool slope, class T> __global__ void huber_kernel(const T* x, T* y, std::int64_t count, double beta) {
  for (std::int64_t i = first_element(); i < count; i += element_step()) {
    const double from = x[i];
    y[i] = static_cast<T>(slope ? huber_slope_of(from, beta) : huber_of(from, beta));
  }
}

} // namespace

Failure huber(Queue queue, const device::HuberJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    const auto kernel = job.slope ? huber_kernel<true, T> : huber_kernel<false, T>;
    GPU_LAUNCH(kernel, elements_grid(job.count), elements_block, 0, queue.stream, static_cast<const T*>(job.x),
               static_cast<T*>(job.y), job.count, job.beta);
    return nullptr;
  });
}

} // namespace eg::cuda
