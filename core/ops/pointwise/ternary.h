#pragma once
// Declares vector kernels of three operands that broadcast against each other, and the loop that applies them to any
// shapes.

#include "core/device/jobs.h"
#include "core/op.h"

#include <array>
#include <cstdint>

namespace eg::pointwise {

/// An operand of a run: element i, or one element that serves all.
template <class T> struct Operand {
  const T* at;
  bool steps;
};

/// y[i] = f(a[i], b[i], c[i]) for i < n on the calling thread.
template <class T> using TernaryKernel = void (*)(Operand<T> a, Operand<T> b, Operand<T> c, T* y, std::int64_t n);

template <class T> struct Ternary {
  /// a + w (b - a) for |w| < 1/2 and b - (1 - w) (b - a) otherwise: exact at both ends.
  static void lerp(Operand<T> a, Operand<T> b, Operand<T> w, T* y, std::int64_t n);
  /// g exp(x - s), 0 where s is -infinity; in double, rounded once.
  static void scaled_exp(Operand<T> g, Operand<T> x, Operand<T> s, T* y, std::int64_t n);
};

/// y = f(operands), broadcast to the shape of y, on all threads.
void run(TernaryKernel<float> f32, TernaryKernel<double> f64, const std::array<Tensor, 3>& in, Tensor& y);

/// The same of the three inputs, on their device.
void run_on_device(device::Ternary op, const OpArgs& args, Tensor& y);

} // namespace eg::pointwise
