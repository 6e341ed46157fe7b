// gather, index_select, embedding, permutations and one_hot on a device.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"
#include "core/cuda/report.h"
#include "core/cuda/runtime.h"

namespace eg::cuda {
namespace {

using device::Refused;
using Whole = unsigned long long; // what atomic functions take for 64 bits

template <class T> __global__ void take_kernel(device::TakeJob job, device::KernelError* error) {
  const T* const x = static_cast<const T*>(job.x);
  T* const y = static_cast<T*>(job.y);
  const std::int64_t total = job.outer * job.count * job.inner;
  for (std::int64_t i = first_element(); i < total; i += element_step()) {
    const std::int64_t j = i % job.inner, k = i / job.inner % job.count, o = i / job.inner / job.count;
    const std::int64_t position = o * job.index_o + k * job.index_k + j * job.index_j;
    const std::int64_t at = job.index[position];
    y[i] = is_inside(at, job.extent, position, Refused::index, job.row, error)
               ? x[(o * job.extent + at) * job.inner + j]
               : T{};
  }
}

__global__ void unfilled_kernel(device::InvertJob job) {
  const std::int64_t total = job.rows * job.n;
  for (std::int64_t i = first_element(); i < total; i += element_step()) job.inverse[i] = job.n;
}

/// The least i for each number.
__global__ void claim_kernel(device::InvertJob job, device::KernelError* error) {
  const std::int64_t total = job.rows * job.n;
  for (std::int64_t i = first_element(); i < total; i += element_step()) {
    const std::int64_t number = job.permutation[i];
    if (is_inside(number, job.n, i, Refused::index, job.row, error))
      atomicMin(reinterpret_cast<Whole*>(job.inverse + i / job.n * job.n + number), static_cast<Whole>(i % job.n));
  }
}

__global__ void repeated_kernel(device::InvertJob job, device::KernelError* error) {
  const std::int64_t total = job.rows * job.n;
  for (std::int64_t i = first_element(); i < total; i += element_step()) {
    const std::int64_t number = job.permutation[i];
    if (number < 0 || number >= job.n) continue;
    const std::int64_t first = job.inverse[i / job.n * job.n + number];
    if (first != i % job.n) report(error, job.row, {Refused::repeated, number, job.n, i % job.n, first});
  }
}

template <class T> __global__ void one_hot_kernel(device::OneHotJob job, device::KernelError* error) {
  T* const y = static_cast<T*>(job.y);
  const std::int64_t total = job.count * job.classes;
  for (std::int64_t i = first_element(); i < total; i += element_step()) {
    const std::int64_t c = i % job.classes, number = job.x[i / job.classes];
    if (c == 0) is_inside(number, job.classes, i / job.classes, Refused::number, job.row, error);
    y[i] = number == c ? static_cast<T>(job.one) : T{};
  }
}

} // namespace

Failure take(Queue queue, const device::TakeJob& job) {
  return visit_size(job.size, [&]<class T>() -> Failure {
    GPU_LAUNCH(take_kernel<T>, elements_grid(job.outer * job.count * job.inner), elements_block, 0, queue.stream, job,
               kernel_error(queue.device));
    return nullptr;
  });
}

Failure invert(Queue queue, const device::InvertJob& job) {
  const dim3 grid = elements_grid(job.rows * job.n);
  device::KernelError* const error = kernel_error(queue.device);
  GPU_LAUNCH(unfilled_kernel, grid, elements_block, 0, queue.stream, job);
  GPU_LAUNCH(claim_kernel, grid, elements_block, 0, queue.stream, job, error);
  GPU_LAUNCH(repeated_kernel, grid, elements_block, 0, queue.stream, job, error);
  return nullptr;
}

Failure one_hot(Queue queue, const device::OneHotJob& job) {
  return visit_size(job.size, [&]<class T>() -> Failure {
    GPU_LAUNCH(one_hot_kernel<T>, elements_grid(job.count * job.classes), elements_block, 0, queue.stream, job,
               kernel_error(queue.device));
    return nullptr;
  });
}

} // namespace eg::cuda
