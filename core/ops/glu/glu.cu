// Gated linear units on a device.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

#include "core/ops/glu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/glu/glu.cu"
#include "core/ops/glu/gates-inl.h"

namespace eg::cuda {
namespace {

using device::GluJob;
using glu_kernels::Gate;

template <Gate kind, class T> __global__ void glu_kernel(const T* gate, const T* up, T* y, std::int64_t count) {
  const hwy::HWY_NAMESPACE::ScalableTag<T> d;
  for (std::int64_t i = first_element(); i < count; i += element_step())
    y[i] = HWY_NAMESPACE::Act<kind>(d, gate[i]) * up[i];
}

template <Gate kind, class T>
__global__ void glu_backward_kernel(const T* gate, const T* up, const T* g, T* dgate, T* dup, std::int64_t count) {
  const hwy::HWY_NAMESPACE::ScalableTag<T> d;
  for (std::int64_t i = first_element(); i < count; i += element_step()) {
    const auto act = HWY_NAMESPACE::ActBoth<kind>(d, gate[i]);
    dup[i] = g[i] * act.value;
    dgate[i] = g[i] * up[i] * act.slope;
  }
}

template <Gate kind> Failure start(Queue queue, const GluJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    const T *const gate = static_cast<const T*>(job.gate), *const up = static_cast<const T*>(job.up);
    if (job.g == nullptr)
      GPU_LAUNCH((glu_kernel<kind, T>), elements_grid(job.count), elements_block, 0, queue.stream, gate, up,
                 static_cast<T*>(job.y), job.count);
    else
      GPU_LAUNCH((glu_backward_kernel<kind, T>), elements_grid(job.count), elements_block, 0, queue.stream, gate, up,
                 static_cast<const T*>(job.g), static_cast<T*>(job.y), static_cast<T*>(job.dup), job.count);
    return nullptr;
  });
}

} // namespace

Failure glu(Queue queue, const GluJob& job) {
  switch (static_cast<Gate>(job.gate_kind)) {
  case Gate::sigmoid:
    return start<Gate::sigmoid>(queue, job);
  case Gate::relu:
    return start<Gate::relu>(queue, job);
  case Gate::silu:
    return start<Gate::silu>(queue, job);
  case Gate::gelu:
    return start<Gate::gelu>(queue, job);
  case Gate::gelu_tanh:
    return start<Gate::gelu_tanh>(queue, job);
  }
  return "there is no such gate";
}

} // namespace eg::cuda
