// interpolate and its adjoint on a device, with the additions of the CPU in their order.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

namespace eg::cuda {
namespace {

using device::ResampleJob;
using device::ResampleMatrix;

template <class T> __global__ void resample_columns_kernel(ResampleJob job) {
  const ResampleMatrix& m = job.columns;
  const std::int64_t total = job.planes * job.rows.columns * m.rows;
  for (std::int64_t at = first_element(); at < total; at += element_step()) {
    const std::int64_t j = at % m.rows;
    const T* const from = static_cast<const T*>(job.x) + at / m.rows * m.columns + m.first[j];
    const double* const w = m.weights + m.start[j];
    double sum = 0;
    for (std::int64_t k = 0; k < m.start[j + 1] - m.start[j]; ++k) sum += w[k] * static_cast<double>(from[k]);
    job.half_way[at] = sum;
  }
}

template <class T> __global__ void resample_rows_kernel(ResampleJob job) {
  const ResampleMatrix& m = job.rows;
  const std::int64_t width = job.columns.rows, total = job.planes * m.rows * width;
  for (std::int64_t at = first_element(); at < total; at += element_step()) {
    const std::int64_t j = at % width, i = at / width % m.rows, plane = at / width / m.rows;
    const double* const from = job.half_way + (plane * m.columns + m.first[i]) * width + j;
    const double* const w = m.weights + m.start[i];
    double sum = 0;
    for (std::int64_t k = 0; k < m.start[i + 1] - m.start[i]; ++k) sum += w[k] * from[k * width];
    static_cast<T*>(job.y)[at] = static_cast<T>(sum);
  }
}

} // namespace

Failure resample(Queue queue, const ResampleJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    GPU_LAUNCH(resample_columns_kernel<T>, elements_grid(job.planes * job.rows.columns * job.columns.rows),
               elements_block, 0, queue.stream, job);
    GPU_LAUNCH(resample_rows_kernel<T>, elements_grid(job.planes * job.rows.rows * job.columns.rows), elements_block, 0,
               queue.stream, job);
    return nullptr;
  });
}

} // namespace eg::cuda
