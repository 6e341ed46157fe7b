// rotary on a device.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

#include <cmath>

namespace eg::cuda {
namespace {

template <class T> __global__ void angles_kernel(device::RotaryJob job) {
  for (std::int64_t i = first_element(); i < job.position_count * job.half; i += element_step()) {
    const double angle = static_cast<double>(job.positions[i / job.half]) * job.frequencies[i % job.half];
    static_cast<T*>(job.cosine)[i] = static_cast<T>(cos(angle));
    static_cast<T*>(job.sine)[i] = static_cast<T>(job.sign * sin(angle));
  }
}

/// Row of the angles that belongs to row r of x.
__device__ inline std::int64_t position_of_row(const device::RotaryJob& job, std::int64_t r) {
  const std::int64_t b = r / (job.heads * job.tokens);
  const std::int64_t t = job.heads_first ? r % job.tokens : r / job.heads % job.tokens;
  return job.by_batch ? b * job.tokens + t : t;
}

/// One thread for a feature: it computes its half of the pair.
template <class T> __global__ void rotate_kernel(device::RotaryJob job) {
  const T* const cosine = static_cast<const T*>(job.cosine);
  const T* const sine = static_cast<const T*>(job.sine);
  const std::int64_t total = job.batch * job.tokens * job.heads * job.features;
  const std::int64_t apart = job.interleaved ? 1 : job.half;
  for (std::int64_t i = first_element(); i < total; i += element_step()) {
    const std::int64_t r = i / job.features, f = i % job.features;
    const T* const x = static_cast<const T*>(job.x) + i;
    T* const y = static_cast<T*>(job.y) + i;
    if (f >= 2 * job.half) {
      *y = *x;
      continue;
    }
    const std::int64_t pair = job.interleaved ? f / 2 : f % job.half;
    const bool second = job.interleaved ? f % 2 == 1 : f >= job.half;
    const std::int64_t at = position_of_row(job, r) * job.half + pair;
    *y = second ? *x * cosine[at] + x[-apart] * sine[at] : *x * cosine[at] - x[apart] * sine[at];
  }
}

} // namespace

Failure rotary(Queue queue, const device::RotaryJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    const std::int64_t angles = job.position_count * job.half;
    if (angles > 0) GPU_LAUNCH(angles_kernel<T>, elements_grid(angles), elements_block, 0, queue.stream, job);
    GPU_LAUNCH(rotate_kernel<T>, elements_grid(job.batch * job.tokens * job.heads * job.features), elements_block, 0,
               queue.stream, job);
    return nullptr;
  });
}

} // namespace eg::cuda
