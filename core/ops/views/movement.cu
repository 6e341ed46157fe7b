// fill, copy and cast on a device.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

#include "core/ops/views/converted.h"

namespace eg::cuda {
namespace {

template <class T> __global__ void fill_kernel(T* to, T element, std::int64_t count, Axes<1> axes) {
  for (std::int64_t i = first_element(); i < count; i += element_step()) to[offsets_at(axes, i).at[0]] = element;
}

template <class T> __global__ void copy_kernel(T* to, const T* from, std::int64_t count, Axes<2> axes) {
  for (std::int64_t i = first_element(); i < count; i += element_step()) {
    const Offsets<2> o = offsets_at(axes, i);
    to[o.at[0]] = from[o.at[1]];
  }
}

template <class To, class From> __global__ void cast_kernel(To* to, const From* from, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += element_step()) to[i] = converted<To>(from[i]);
}

} // namespace

Failure fill(Queue queue, const device::FillJob& job) {
  const std::int64_t count = job.axes.count();
  return visit_size(job.size, [&]<class T>() -> Failure {
    GPU_LAUNCH(fill_kernel<T>, elements_grid(count), elements_block, 0, queue.stream, static_cast<T*>(job.to),
               static_cast<T>(job.bits), count, job.axes);
    return nullptr;
  });
}

Failure copy(Queue queue, const device::CopyJob& job) {
  const std::int64_t count = job.axes.count();
  return visit_size(job.size, [&]<class T>() -> Failure {
    GPU_LAUNCH(copy_kernel<T>, elements_grid(count), elements_block, 0, queue.stream, static_cast<T*>(job.to),
               static_cast<const T*>(job.from), count, job.axes);
    return nullptr;
  });
}

Failure cast(Queue queue, const device::CastJob& job) {
  return visit_dtype(job.from_type, [&]<class From>() {
    return visit_dtype(job.to_type, [&]<class To>() -> Failure {
      GPU_LAUNCH((cast_kernel<To, From>), elements_grid(job.count), elements_block, 0, queue.stream,
                 static_cast<To*>(job.to), static_cast<const From*>(job.from), job.count);
      return nullptr;
    });
  });
}

} // namespace eg::cuda
