// unfold and fold on a device.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

namespace eg::cuda {
namespace {

using device::WindowAxis;

template <class T> __global__ void unfold_kernel(device::WindowsJob job) {
  const WindowAxis r = job.rows, c = job.columns;
  const T* const x = static_cast<const T*>(job.from);
  const std::int64_t total = job.planes * r.kernel * c.kernel * r.count * c.count;
  for (std::int64_t at = first_element(); at < total; at += element_step()) {
    std::int64_t rest = at;
    const std::int64_t j = rest % c.count;
    const std::int64_t i = (rest /= c.count) % r.count;
    const std::int64_t v = (rest /= r.count) % c.kernel;
    const std::int64_t u = (rest /= c.kernel) % r.kernel;
    const std::int64_t row = i * r.stride - r.padding + u * r.dilation;
    const std::int64_t column = j * c.stride - c.padding + v * c.dilation;
    const bool inside = row >= 0 && row < r.extent && column >= 0 && column < c.extent;
    static_cast<T*>(job.to)[at] = inside ? x[(rest / r.kernel * r.extent + row) * c.extent + column] : T{0};
  }
}

/// The window whose element `tap` is at `place`, or -1.
__device__ inline std::int64_t window_at(const WindowAxis& axis, std::int64_t place, std::int64_t tap) {
  const std::int64_t first = place + axis.padding - tap * axis.dilation;
  return first >= 0 && first % axis.stride == 0 && first / axis.stride < axis.count ? first / axis.stride : -1;
}

template <class T> __global__ void fold_kernel(device::WindowsJob job) {
  const WindowAxis r = job.rows, c = job.columns;
  const T* const columns = static_cast<const T*>(job.from);
  const std::int64_t total = job.planes * r.extent * c.extent;
  for (std::int64_t at = first_element(); at < total; at += element_step()) {
    const std::int64_t column = at % c.extent, row = at / c.extent % r.extent, plane = at / c.extent / r.extent;
    T sum = 0;
    for (std::int64_t u = 0; u < r.kernel; ++u) {
      const std::int64_t i = window_at(r, row, u);
      if (i < 0) continue;
      for (std::int64_t v = 0; v < c.kernel; ++v) {
        const std::int64_t j = window_at(c, column, v);
        if (j >= 0) sum += columns[(((plane * r.kernel + u) * c.kernel + v) * r.count + i) * c.count + j];
      }
    }
    static_cast<T*>(job.to)[at] = sum;
  }
}

} // namespace

Failure unfold(Queue queue, const device::WindowsJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    const WindowAxis &r = job.rows, &c = job.columns;
    GPU_LAUNCH(unfold_kernel<T>, elements_grid(job.planes * r.kernel * c.kernel * r.count * c.count), elements_block, 0,
               queue.stream, job);
    return nullptr;
  });
}

Failure fold(Queue queue, const device::WindowsJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    GPU_LAUNCH(fold_kernel<T>, elements_grid(job.planes * job.rows.extent * job.columns.extent), elements_block, 0,
               queue.stream, job);
    return nullptr;
  });
}

} // namespace eg::cuda
