// Reductions and center on a device.

#include "core/ops/reduce/reduce_kernels.h"

namespace eg::cuda {
namespace {

template <class T>
__global__ void center_kernel(T* y, const T* x, const double* means, std::int64_t count, Axes<3> axes) {
  for (std::int64_t i = first_element(); i < count; i += element_step()) {
    const Offsets<3> o = offsets_at(axes, i);
    y[o.at[0]] = static_cast<T>(static_cast<double>(x[o.at[1]]) - means[o.at[2]]);
  }
}

} // namespace

Failure reduce(Queue queue, const ReduceJob& job) {
  switch (job.kind) {
  case ReduceKind::sum:
  case ReduceKind::mean:
  case ReduceKind::variance:
  case ReduceKind::deviation:
  case ReduceKind::size_sum:
  case ReduceKind::root_squares:
    return reduce_sums(queue, job);
  case ReduceKind::largest:
  case ReduceKind::smallest:
  case ReduceKind::any:
  case ReduceKind::all:
  case ReduceKind::nonzeros:
  case ReduceKind::largest_size:
    return reduce_extremes(queue, job);
  case ReduceKind::product:
  case ReduceKind::power_norm:
  case ReduceKind::log_sum_exp:
    return reduce_powers(queue, job);
  }
  return "there is no such reduction";
}

Failure center(Queue queue, const device::CenterJob& job) {
  const std::int64_t count = job.axes.count();
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    GPU_LAUNCH(center_kernel<T>, elements_grid(count), elements_block, 0, queue.stream, static_cast<T*>(job.y),
               static_cast<const T*>(job.x), job.means, count, job.axes);
    return nullptr;
  });
}

} // namespace eg::cuda
