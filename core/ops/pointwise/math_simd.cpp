// The vector kernels of the ops in table_math.h.

#include "core/ops/pointwise/kernels.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/pointwise/math_simd.cpp"
#include "core/simd-inl.h"

#include "core/ops/pointwise/kernels-inl.h"
#include "core/ops/pointwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

EG_MATH_OPS(EG_UNARY_FUNCTOR)
EG_STEP_OPS(EG_UNARY_FUNCTOR)
EG_MATH_BINARY_OPS(EG_BINARY_FUNCTOR)

/// Kernels in the order of the enumerations.
template <class T> pointwise::Kernels<T> Kernels() {
  static constexpr UnaryKernel<T> unary[] = {EG_MATH_OPS(EG_UNARY_ENTRY) EG_STEP_OPS(EG_UNARY_ENTRY)};
  static constexpr BinaryKernel<T> binary[] = {EG_MATH_BINARY_OPS(EG_BINARY_ENTRY)};
  return {unary, binary};
}

pointwise::Kernels<float> KernelsF32() { return Kernels<float>(); }
pointwise::Kernels<double> KernelsF64() { return Kernels<double>(); }

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(KernelsF32);
HWY_EXPORT(KernelsF64);

namespace pointwise {

template <> Kernels<float> math_kernels() { return HWY_DYNAMIC_DISPATCH(KernelsF32)(); }
template <> Kernels<double> math_kernels() { return HWY_DYNAMIC_DISPATCH(KernelsF64)(); }

} // namespace pointwise
} // namespace eg
#endif
