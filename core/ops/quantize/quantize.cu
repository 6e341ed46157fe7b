// quantize_int8 and dequantize_int8 on a device.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"
#include "core/cuda/report.h"
#include "core/cuda/runtime.h"

#include "core/ops/quantize/scale.h"

#include <bit>
#include <type_traits>

namespace eg::cuda {
namespace {

template <class T> __device__ bool is_finite(T x) { return x - x == 0; }

template <class T>
__device__ void report_row(const T* w, std::int64_t n, std::int64_t row, device::KernelError* error) {
  const char name[] = "quantize_int8";
  device::RowName text;
  for (unsigned i = 0; i < sizeof name; ++i) text.text[i] = name[i];
  for (std::int64_t i = 0; i < n; ++i) {
    if (is_finite(w[i])) continue;
    const auto bits = std::bit_cast<std::int64_t>(static_cast<double>(w[i]));
    return report(error, text, {device::Refused::not_finite, bits, 0, i, row});
  }
}

/// One block for a row.
template <class T> __global__ void quantize_kernel(device::QuantizeJob job, device::KernelError* error) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits magnitude = static_cast<Bits>(~Bits{0}) >> 1;
  GPU_SHARED(room, Bits[gpu::warp_size]);
  for (std::int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
    const T* const w = static_cast<const T*>(job.weight) + row * job.columns;
    std::uint8_t* const codes = job.codes + row * job.columns;
    Bits largest = 0; // bits of magnitudes are ordered as the magnitudes are, NaN last
    for (std::int64_t i = threadIdx.x; i < job.columns; i += blockDim.x) {
      const Bits own = std::bit_cast<Bits>(w[i]) & magnitude;
      largest = largest < own ? own : largest;
    }
    largest = gpu::block_reduce(largest, Bits{0}, &room[0], [](Bits a, Bits b) { return a < b ? b : a; });
    const T most = std::bit_cast<T>(largest);
    const bool good = is_finite(most);
    const double scale = good ? quantize::scale_of(static_cast<double>(most)) : 1.0;
    if (threadIdx.x == 0) {
      static_cast<T*>(job.scales)[row] = static_cast<T>(scale);
      if (!good) report_row(w, job.columns, row, error);
    }
    for (std::int64_t i = threadIdx.x; i < job.columns; i += blockDim.x)
      codes[i] = good ? static_cast<std::uint8_t>(
                            static_cast<std::int8_t>(quantize::nearest(static_cast<double>(w[i]) / scale)))
                      : std::uint8_t{0};
  }
}

template <class T> __global__ void dequantize_kernel(device::DequantizeJob job) {
  for (std::int64_t i = first_element(); i < job.rows * job.columns; i += element_step())
    static_cast<T*>(job.weight)[i] =
        static_cast<const T*>(job.scales)[i / job.columns] * static_cast<T>(static_cast<std::int8_t>(job.codes[i]));
}

} // namespace

Failure quantize_int8(Queue queue, const device::QuantizeJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    const auto blocks = static_cast<unsigned>(job.rows < 132 * 16 ? job.rows : 132 * 16);
    GPU_LAUNCH(quantize_kernel<T>, dim3(blocks), elements_block, 0, queue.stream, job, kernel_error(queue.device));
    return nullptr;
  });
}

Failure dequantize_int8(Queue queue, const device::DequantizeJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    GPU_LAUNCH(dequantize_kernel<T>, elements_grid(job.rows * job.columns), elements_block, 0, queue.stream, job);
    return nullptr;
  });
}

} // namespace eg::cuda
