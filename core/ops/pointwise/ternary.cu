// The pointwise functions of three operands on a device.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/pointwise/ternary.cu"
#include "core/ops/pointwise/ternary-inl.h"

namespace eg::cuda {
namespace {

using device::Ternary;

/// Computed in E, rounded to T.
template <class F, class E, class T>
__global__ void ternary_kernel(T* y, const T* a, const T* b, const T* c, std::int64_t count, Axes<4> axes) {
  for (std::int64_t i = first_element(); i < count; i += element_step()) {
    const Offsets<4> o = offsets_at(axes, i);
    const hwy::HWY_NAMESPACE::ScalableTag<E> d;
    y[o.at[0]] =
        static_cast<T>(F::value(d, static_cast<E>(a[o.at[1]]), static_cast<E>(b[o.at[2]]), static_cast<E>(c[o.at[3]])));
  }
}

template <class F, class E, class T> Failure start(Queue queue, const device::TernaryJob& job) {
  const std::int64_t count = job.axes.count();
  GPU_LAUNCH((ternary_kernel<F, E, T>), elements_grid(count), elements_block, 0, queue.stream, static_cast<T*>(job.y),
             static_cast<const T*>(job.a), static_cast<const T*>(job.b), static_cast<const T*>(job.c), count, job.axes);
  return nullptr;
}

} // namespace

Failure ternary(Queue queue, const device::TernaryJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    switch (job.op) {
    case Ternary::lerp:
      return start<HWY_NAMESPACE::Lerp, T, T>(queue, job);
    case Ternary::scaled_exp:
      return start<HWY_NAMESPACE::ScaledExp, double, T>(queue, job);
    }
    return "there is no such row of three inputs";
  });
}

} // namespace eg::cuda
