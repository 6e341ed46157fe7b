#pragma once
// Defines Huber's function and its slope, for the CPU and for devices.

#include "core/device/qualifiers.h"

#include <cmath>

namespace eg {

/// x^2 / (2 beta) where |x| < beta, else |x| - beta / 2.
EG_DEVICE_FUNCTION inline double huber_of(double x, double beta) {
  const double size = fabs(x);
  return size < beta ? 0.5 * size * (size / beta) : size - 0.5 * beta;
}

/// x / beta where |x| < beta, else the sign of x.
EG_DEVICE_FUNCTION inline double huber_slope_of(double x, double beta) {
  if (fabs(x) < beta) return x / beta;
  return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; // 0 and NaN stay
}

} // namespace eg
