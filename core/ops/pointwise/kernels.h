#pragma once
// Declares the kernels of the pointwise ops, for their op definitions and for kernels that fuse them.

#include "core/ops/pointwise/tables.h"
#include "core/reduction.h"

#include <cstdint>

namespace eg::pointwise {

#define EG_NAME(NAME, ...) NAME,
/// The pointwise ops of one input.
enum class Unary : std::uint8_t { EG_ALL_UNARY_OPS(EG_NAME) count };
/// The pointwise ops of two inputs.
enum class Binary : std::uint8_t { EG_ALL_BINARY_OPS(EG_NAME) count };
#undef EG_NAME

#define EG_ONE(...) +1
/// True for the rows of the vector tables, whose arithmetic is that of devices.
constexpr bool has_vector_kernel(Unary op) {
  constexpr int count = 0 EG_UNARY_OPS(EG_ONE) EG_PARAMETRIC_OPS(EG_ONE) EG_MATH_OPS(EG_ONE) EG_STEP_OPS(EG_ONE)
      EG_ACTIVATION_OPS(EG_ONE) EG_PARAMETRIC_ACTIVATION_OPS(EG_ONE);
  return static_cast<int>(op) < count;
}
constexpr bool has_vector_kernel(Binary op) {
  constexpr int count = 0 EG_BINARY_OPS(EG_ONE) EG_MATH_BINARY_OPS(EG_ONE);
  return static_cast<int>(op) < count;
}
#undef EG_ONE

/// y[i] = f(x[i]) for i < n on the calling thread; p: the op's attributes (null where it has none). y may be x.
template <class T> using UnaryKernel = void (*)(const T* x, T* y, std::int64_t n, const double* p);

/// Which operands step with i; the other is one element that serves all.
enum class Steps : std::uint8_t { both, first, second };
/// y[i] = f(a[i], b[i]) for i < n on the calling thread. y may be a or b.
template <class T> using BinaryKernel = void (*)(const T* a, const T* b, T* y, std::int64_t n, Steps steps);

/// The kernel for this processor and the present reduction. T is float or double.
template <class T> UnaryKernel<T> kernel(Unary op);
template <class T> BinaryKernel<T> kernel(Binary op);

/// The kernels of one file, in the order of the enumerations.
template <class T> struct Kernels {
  const UnaryKernel<T>* unary;
  const BinaryKernel<T>* binary;
};
template <class T> Kernels<T> arithmetic_kernels(Reduction r);
template <class T> Kernels<T> math_kernels(Reduction r);
template <class T> Kernels<T> activation_kernels(Reduction r);
template <class T> Kernels<T> scalar_kernels(Reduction r);

/// Pointwise loops run on all threads in chunks of this many elements.
inline constexpr std::int64_t chunk = 16384;

} // namespace eg::pointwise
