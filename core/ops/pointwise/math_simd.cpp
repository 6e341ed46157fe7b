// The vector kernels of the ops in table_math.h.

#include "core/ops/pointwise/dispatch-inl.h"
#include "core/ops/pointwise/kernels.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/pointwise/math_simd.cpp"
#include "core/simd/simd-inl.h"

#include "core/ops/pointwise/kernels-inl.h"
#include "core/ops/pointwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

EG_MATH_OPS(EG_UNARY_FUNCTOR)
EG_STEP_OPS(EG_UNARY_FUNCTOR)
EG_MATH_BINARY_OPS(EG_BINARY_FUNCTOR)

/// Kernels in the order of the enumerations.
template <Reduction r, class T> pointwise::Kernels<T> Kernels() {
  static constexpr UnaryKernel<T> unary[] = {EG_MATH_OPS(EG_UNARY_ENTRY) EG_STEP_OPS(EG_UNARY_ENTRY)};
  static constexpr BinaryKernel<T> binary[] = {EG_MATH_BINARY_OPS(EG_BINARY_ENTRY)};
  return {unary, binary};
}

EG_KERNELS_OF_TARGET

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {
EG_DISPATCH_KERNELS(math_kernels)
} // namespace eg
#endif
