// The kernels of the ops in table_activations.h.

#include "core/ops/pointwise/dispatch-inl.h"
#include "core/ops/pointwise/kernels.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/pointwise/activations_simd.cpp"
#include "core/simd/simd-inl.h"

#include "core/ops/pointwise/kernels-inl.h"
#include "core/ops/pointwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

EG_ACTIVATION_OPS(EG_UNARY_FUNCTOR)
EG_PARAMETRIC_ACTIVATION_OPS(EG_UNARY_FUNCTOR)

/// Kernels in the order of the enumerations.
template <Reduction r, class T> pointwise::Kernels<T> Kernels() {
  static constexpr UnaryKernel<T> unary[] = {EG_ACTIVATION_OPS(EG_UNARY_ENTRY)
                                                 EG_PARAMETRIC_ACTIVATION_OPS(EG_UNARY_ENTRY)};
  return {unary, nullptr};
}

EG_KERNELS_OF_TARGET

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {
EG_DISPATCH_KERNELS(activation_kernels)
} // namespace eg
#endif
