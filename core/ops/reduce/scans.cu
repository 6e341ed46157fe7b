// Scans on a device, in the order of the CPU.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

#include "core/ops/reduce/product.h"

#include <cstdint>
#include <type_traits>

namespace eg::cuda {
namespace {

using device::ScanJob;
using device::ScanKind;
using reduce::Product;

/// Sums of whole numbers wrap; the others are double.
template <class T> using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;

/// One line: its elements are `step` apart in the order of the scan.
struct Line {
  std::int64_t first, step, extent;
};
__device__ inline Line line_of(std::int64_t line, std::int64_t extent, std::int64_t inner, bool reverse) {
  const std::int64_t first = line / inner * extent * inner + line % inner;
  return {reverse ? first + (extent - 1) * inner : first, reverse ? -inner : inner, extent};
}

template <ScanKind kind, class T>
__global__ void scan_kernel(const T* x, const T* b, T* y, std::int64_t lines, std::int64_t extent, std::int64_t inner,
                            bool reverse) {
  for (std::int64_t i = first_element(); i < lines; i += element_step()) {
    const Line line = line_of(i, extent, inner, reverse);
    Wide<T> z = 0;
    std::int64_t at = line.first;
    for (std::int64_t k = 0; k < extent; ++k, at += line.step) {
      if constexpr (kind == ScanKind::linear) {
        const auto term = static_cast<Wide<T>>(b[at]);
        z = k == 0 ? term : static_cast<Wide<T>>(x[at]) * z + term;
      } else if constexpr (kind == ScanKind::product) {
        z = k == 0 ? static_cast<Wide<T>>(x[at]) : z * static_cast<Wide<T>>(x[at]);
      } else {
        z = k == 0 ? static_cast<Wide<T>>(x[at]) : z + static_cast<Wide<T>>(x[at]);
      }
      y[at] = static_cast<T>(z);
    }
  }
}

/// y[i] = product of what comes before i, which `before` keeps, and of what comes after it.
template <class T>
__global__ void others_kernel(const T* x, T* y, Product* before, std::int64_t lines, std::int64_t extent,
                              std::int64_t inner) {
  for (std::int64_t i = first_element(); i < lines; i += element_step()) {
    const Line line = line_of(i, extent, inner, false);
    Product p;
    for (std::int64_t k = 0, at = line.first; k < extent; ++k, at += line.step) {
      before[at] = p;
      p.times(static_cast<double>(x[at]));
    }
    Product after;
    for (std::int64_t k = extent - 1, at = line.first + k * line.step; k >= 0; --k, at -= line.step) {
      Product others = before[at];
      others.times(after);
      y[at] = static_cast<T>(others.value());
      after.times(static_cast<double>(x[at]));
    }
  }
}

template <ScanKind kind, class T> Failure start(Queue queue, const ScanJob& job) {
  const std::int64_t lines = job.outer * job.inner;
  if constexpr (kind == ScanKind::others) {
    GPU_LAUNCH(others_kernel<T>, elements_grid(lines), elements_block, 0, queue.stream, static_cast<const T*>(job.x),
               static_cast<T*>(job.y), static_cast<Product*>(job.scratch), lines, job.extent, job.inner);
  } else {
    GPU_LAUNCH((scan_kernel<kind, T>), elements_grid(lines), elements_block, 0, queue.stream,
               static_cast<const T*>(job.x), static_cast<const T*>(job.b), static_cast<T*>(job.y), lines, job.extent,
               job.inner, job.reverse);
  }
  return nullptr;
}

template <ScanKind kind> Failure start_floating(Queue queue, const ScanJob& job) {
  return visit_floating_type(job.type, [&]<class T>() { return start<kind, T>(queue, job); });
}

} // namespace

Failure scan(Queue queue, const ScanJob& job) {
  switch (job.kind) {
  case ScanKind::sum:
    return job.type == DType::i64 ? start<ScanKind::sum, std::int64_t>(queue, job)
                                  : start_floating<ScanKind::sum>(queue, job);
  case ScanKind::product:
    return start_floating<ScanKind::product>(queue, job);
  case ScanKind::linear:
    return start_floating<ScanKind::linear>(queue, job);
  case ScanKind::others:
    return start_floating<ScanKind::others>(queue, job);
  }
  return "there is no such scan";
}

} // namespace eg::cuda
