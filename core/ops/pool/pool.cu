// Poolings on a device, with the additions of the CPU in their order.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

#include "core/ops/pool/bin.h"

namespace eg::cuda {
namespace {

using device::PoolJob;
using pool::Bin;
using pool::bin_of;

/// An output of the pooling.
struct Output {
  std::int64_t plane;
  Bin rows, columns;
};
__device__ inline Output output_at(const PoolJob& job, std::int64_t i) {
  const std::int64_t outputs = job.rows.count * job.columns.count;
  return {i / outputs, bin_of(job.rows, i / job.columns.count % job.rows.count),
          bin_of(job.columns, i % job.columns.count)};
}

template <class T> __global__ void mean_kernel(PoolJob job) {
  const std::int64_t total = job.planes * job.rows.count * job.columns.count;
  const bool by_rows = pool::sums_rows(job.rows, job.columns);
  for (std::int64_t i = first_element(); i < total; i += element_step()) {
    const Output o = output_at(job, i);
    const T* const plane = static_cast<const T*>(job.from) + o.plane * job.rows.extent * job.columns.extent;
    double sum = 0;
    if (by_rows) {
      sum = pool::sum_of_rows(plane, o.rows.begin, o.rows.end, job.columns.extent);
    } else {
      for (std::int64_t r = o.rows.begin; r < o.rows.end; ++r)
        for (std::int64_t q = o.columns.begin; q < o.columns.end; ++q)
          sum += static_cast<double>(plane[r * job.columns.extent + q]);
    }
    static_cast<T*>(job.to)[i] = static_cast<T>(sum / (o.rows.divisor * o.columns.divisor));
  }
}

/// One thread for a pixel: it adds its shares of the outputs in their order.
template <class T> __global__ void mean_backward_kernel(PoolJob job) {
  const std::int64_t pixels = job.rows.extent * job.columns.extent;
  for (std::int64_t at = first_element(); at < job.planes * pixels; at += element_step()) {
    const std::int64_t r = at % pixels / job.columns.extent, q = at % job.columns.extent;
    const T* const g = static_cast<const T*>(job.from) + at / pixels * job.rows.count * job.columns.count;
    T sum = 0;
    for (std::int64_t i = 0; i < job.rows.count; ++i) {
      const Bin rows = bin_of(job.rows, i);
      if (r < rows.begin || r >= rows.end) continue;
      for (std::int64_t j = 0; j < job.columns.count; ++j) {
        const Bin columns = bin_of(job.columns, j);
        if (q < columns.begin || q >= columns.end) continue;
        const double whole = static_cast<double>(g[i * job.columns.count + j]);
        sum += static_cast<T>(whole / (rows.divisor * columns.divisor));
      }
    }
    static_cast<T*>(job.to)[at] = sum;
  }
}

template <class T> __global__ void largest_kernel(PoolJob job) {
  const std::int64_t total = job.planes * job.rows.count * job.columns.count;
  for (std::int64_t i = first_element(); i < total; i += element_step()) {
    const Output o = output_at(job, i);
    const T* const plane = static_cast<const T*>(job.from) + o.plane * job.rows.extent * job.columns.extent;
    std::int64_t place = o.rows.begin * job.columns.extent + o.columns.begin;
    T best = plane[place];
    for (std::int64_t r = o.rows.begin; r < o.rows.end; r += job.rows.dilation)
      for (std::int64_t q = o.columns.begin; q < o.columns.end; q += job.columns.dilation) {
        const T value = plane[r * job.columns.extent + q];
        if (value > best || (value != value && best == best)) {
          best = value;
          place = r * job.columns.extent + q;
        }
      }
    static_cast<T*>(job.to)[i] = best;
    job.places[i] = place;
  }
}

} // namespace

Failure pool(Queue queue, const PoolJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    const std::int64_t outputs = job.planes * job.rows.count * job.columns.count;
    const std::int64_t pixels = job.planes * job.rows.extent * job.columns.extent;
    switch (job.kind) {
    case PoolJob::Kind::mean:
      GPU_LAUNCH(mean_kernel<T>, elements_grid(outputs), elements_block, 0, queue.stream, job);
      break;
    case PoolJob::Kind::mean_backward:
      GPU_LAUNCH(mean_backward_kernel<T>, elements_grid(pixels), elements_block, 0, queue.stream, job);
      break;
    case PoolJob::Kind::largest:
      GPU_LAUNCH(largest_kernel<T>, elements_grid(outputs), elements_block, 0, queue.stream, job);
      break;
    }
    return nullptr;
  });
}

} // namespace eg::cuda
