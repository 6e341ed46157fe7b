// Which kernel file has an op's kernel.

#include "core/ops/pointwise/kernels.h"

namespace eg::pointwise {
namespace {

#define EG_ONE(...) +1
constexpr int arithmetic_unary = 0 EG_UNARY_OPS(EG_ONE) EG_PARAMETRIC_OPS(EG_ONE);
constexpr int math_unary = arithmetic_unary EG_MATH_OPS(EG_ONE) EG_STEP_OPS(EG_ONE);
constexpr int activation_unary = math_unary EG_ACTIVATION_OPS(EG_ONE) EG_PARAMETRIC_ACTIVATION_OPS(EG_ONE);
constexpr int arithmetic_binary = 0 EG_BINARY_OPS(EG_ONE);
constexpr int math_binary = arithmetic_binary EG_MATH_BINARY_OPS(EG_ONE);
#undef EG_ONE

template <class T> UnaryKernel<T> unary_kernel(int op) {
  if (op < arithmetic_unary) return arithmetic_kernels<T>(reduction()).unary[op];
  if (op < math_unary) return math_kernels<T>(reduction()).unary[op - arithmetic_unary];
  if (op < activation_unary) return activation_kernels<T>(reduction()).unary[op - math_unary];
  return scalar_kernels<T>(reduction()).unary[op - activation_unary];
}

template <class T> BinaryKernel<T> binary_kernel(int op) {
  if (op < arithmetic_binary) return arithmetic_kernels<T>(reduction()).binary[op];
  if (op < math_binary) return math_kernels<T>(reduction()).binary[op - arithmetic_binary];
  return scalar_kernels<T>(reduction()).binary[op - math_binary];
}

} // namespace

template <> UnaryKernel<float> kernel(Unary op) { return unary_kernel<float>(static_cast<int>(op)); }
template <> UnaryKernel<double> kernel(Unary op) { return unary_kernel<double>(static_cast<int>(op)); }
template <> BinaryKernel<float> kernel(Binary op) { return binary_kernel<float>(static_cast<int>(op)); }
template <> BinaryKernel<double> kernel(Binary op) { return binary_kernel<double>(static_cast<int>(op)); }

} // namespace eg::pointwise
