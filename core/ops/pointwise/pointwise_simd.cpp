// The kernels of the ops in table.h.

#include "core/ops/pointwise/dispatch-inl.h"
#include "core/ops/pointwise/kernels.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/pointwise/pointwise_simd.cpp"
#include "core/simd/simd-inl.h"

#include "core/ops/pointwise/functions-inl.h"
#include "core/ops/pointwise/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

EG_UNARY_OPS(EG_UNARY_FUNCTOR)
EG_PARAMETRIC_OPS(EG_UNARY_FUNCTOR)
EG_BINARY_OPS(EG_BINARY_FUNCTOR)

/// Kernels in the order of the enumerations.
template <Reduction r, class T> pointwise::Kernels<T> Kernels() {
  static constexpr UnaryKernel<T> unary[] = {EG_UNARY_OPS(EG_UNARY_ENTRY) EG_PARAMETRIC_OPS(EG_UNARY_ENTRY)};
  static constexpr BinaryKernel<T> binary[] = {EG_BINARY_OPS(EG_BINARY_ENTRY)};
  return {unary, binary};
}

EG_KERNELS_OF_TARGET

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {
EG_DISPATCH_KERNELS(arithmetic_kernels)
} // namespace eg
#endif
