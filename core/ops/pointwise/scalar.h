#pragma once
// Defines functions of double numbers that the C library does not have in this form.

#include "core/device/qualifiers.h"

#include <cmath>

namespace eg::scalar {

/// a - floor(a / b) b, with the sign of b; exact but for one rounding. NaN for b = 0.
EG_DEVICE_FUNCTION inline double remainder(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}

} // namespace eg::scalar
