// dropout and drop_path on a device.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

#include "core/philox.h"

namespace eg::cuda {
namespace {

/// One thread for the four elements of a Philox block.
template <class T> __global__ void dropout_kernel(device::DropoutJob job, T scale) {
  const T* const x = static_cast<const T*>(job.x);
  T* const y = static_cast<T*>(job.y);
  for (std::int64_t block = first_element(); 4 * block < job.count; block += element_step()) {
    std::uint32_t words[4];
    philox_words(job.seed, job.stream, static_cast<std::uint64_t>(block), words);
    for (std::int64_t i = 4 * block; i < 4 * block + 4 && i < job.count; ++i)
      y[i] = words[i - 4 * block] > job.last ? x[i] * scale : T{0};
  }
}

template <class T> __global__ void drop_groups_kernel(device::DropoutJob job, T scale) {
  const T* const x = static_cast<const T*>(job.x);
  T* const y = static_cast<T*>(job.y);
  for (std::int64_t i = first_element(); i < job.count; i += element_step()) {
    const std::int64_t word = i / job.group;
    std::uint32_t words[4];
    philox_words(job.seed, job.stream, static_cast<std::uint64_t>(word / 4), words);
    std::uint32_t own = words[0]; // words[word % 4] would put the four into memory
    GPU_UNROLL
    for (int k = 1; k < 4; ++k)
      if (word % 4 == k) own = words[k];
    y[i] = own > job.last ? x[i] * scale : T{0};
  }
}

} // namespace

Failure dropout(Queue queue, const device::DropoutJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    const T scale = static_cast<T>(job.scale);
    if (job.group == 1)
      GPU_LAUNCH(dropout_kernel<T>, elements_grid((job.count + 3) / 4), elements_block, 0, queue.stream, job, scale);
    else
      GPU_LAUNCH(drop_groups_kernel<T>, elements_grid(job.count), elements_block, 0, queue.stream, job, scale);
    return nullptr;
  });
}

} // namespace eg::cuda
