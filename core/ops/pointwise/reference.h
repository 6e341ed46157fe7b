#pragma once
// Computes the activation functions in plain double arithmetic, the reference of their vector forms.

#include <cmath>
#include <numbers>

namespace eg::reference {

inline double xlogx(double x) { return x == 0.0 ? 0.0 : x * std::log(x); }
inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
/// Phi(x), the normal distribution function.
inline double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
/// phi(x), its density.
inline double normal_density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi); }

inline double gelu_tanh_argument(double x) { return std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x); }
inline double gelu_tanh(double x) { return 0.5 * x * (1.0 + std::tanh(gelu_tanh_argument(x))); }
inline double gelu_tanh_slope(double x) {
  const double t = std::tanh(gelu_tanh_argument(x));
  const double u_slope = std::sqrt(2.0 / std::numbers::pi) * (1.0 + 3.0 * 0.044715 * x * x);
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * u_slope;
}
inline double silu_slope(double x) {
  const double s = sigmoid(x);
  return s * (1.0 + x * (1.0 - s));
}
inline double hardswish_slope(double x) { return x < -3.0 ? 0.0 : x > 3.0 ? 1.0 : x / 3.0 + 0.5; }

} // namespace eg::reference
