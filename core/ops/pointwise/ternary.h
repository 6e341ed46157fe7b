#pragma once
// Declares vector kernels of three operands that broadcast against each other, and the loop that applies them to any
// shapes.

#include "core/device/jobs.h"
#include "core/op.h"

#include <array>
#include <cstdint>
#include <optional>

namespace eg::pointwise {

/// An operand of a run: element i, or one element that serves all.
template <class T> struct Operand {
  const T* at;
  bool steps;
};

/// y[i] = f(a[i], b[i], c[i]) for i < n on the calling thread; p: the parameter of those that have one. y may be a, b
/// or c.
template <class T>
using TernaryKernel = void (*)(Operand<T> a, Operand<T> b, Operand<T> c, T* y, std::int64_t n, double p);

/// The kernels of three operands.
enum class Ternary : std::uint8_t {
  lerp,                ///< a + w (b - a) for |w| < 1/2 and b - (1 - w) (b - a) otherwise: exact at both ends
  scaled_exp,          ///< g exp(x - s), 0 where s is -infinity; in double, rounded once
  add_product,         ///< x + a b, with the bits of the operations in turn, as all that follow
  add_scaled_product,  ///< x + p (a b)
  add_quotient,        ///< x + a / b
  add_scaled_quotient, ///< x + p (a / b)
  normalise,           ///< (x - mean) factor
  normalise_shift,     ///< (x - mean) factor + p
  leaky_relu_gradient, ///< (x, g, slope): g where x > 0, else slope g
  cube_gradient,       ///< (y, g, factor): factor g y^3
  logit_loss_gradient, ///< (x, t, g): g ((1 - t) s(x) - t s(-x)), s the sigmoid
};

/// The kernel for this processor and the present reduction. T is float or double.
template <class T> TernaryKernel<T> kernel(Ternary op);

/// y = f(operands), broadcast to the shape of y, on all threads.
void run(Ternary op, const std::array<Tensor, 3>& in, Tensor& y, double p = 0.0);

/// The same in a new tensor of that shape, in place of operations with the same bits: nothing where the operands are of
/// several types or may_fuse() says no.
std::optional<Tensor> fused(Ternary op, const std::array<Tensor, 3>& in, const Shape& shape, double p = 0.0);

/// The same of the three inputs, on their device.
void run_on_device(device::Ternary op, const OpArgs& args, Tensor& y);

} // namespace eg::pointwise
