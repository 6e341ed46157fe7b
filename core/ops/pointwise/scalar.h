#pragma once
// Defines the functions of double numbers that the scalar tables name.

#include "core/device/qualifiers.h"
#include "core/exact/elementary.h"

#include <cmath>

namespace eg::scalar {

/// a - floor(a / b) b, with the sign of b; exact but for one rounding. NaN for b = 0.
EG_DEVICE_FUNCTION inline double remainder(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}

#define EG_FUNCTION(NAME)                                                                                              \
  EG_DEVICE_FUNCTION static double NAME(double x) { return std::NAME(x); }
/// The C library's functions, a device's own on a device.
struct Library {
  EG_FUNCTION(exp2)
  EG_FUNCTION(log2)
  EG_FUNCTION(sin)
  EG_FUNCTION(cos)
  EG_FUNCTION(tan)
  EG_FUNCTION(atan)
  EG_FUNCTION(erf)
  EG_FUNCTION(erfc)
  EG_DEVICE_FUNCTION static double pow(double x, double y) { return std::pow(x, y); }
};
#undef EG_FUNCTION

#define EG_FUNCTION(NAME)                                                                                              \
  static double NAME(double x) { return exact::NAME(x); }
/// Those of exact mode, the same on every machine.
struct Portable {
  EG_FUNCTION(exp2)
  EG_FUNCTION(log2)
  EG_FUNCTION(sin)
  EG_FUNCTION(cos)
  EG_FUNCTION(tan)
  EG_FUNCTION(atan)
  EG_FUNCTION(erf)
  EG_FUNCTION(erfc)
  static double pow(double x, double y) { return exact::pow(x, y); }
};
#undef EG_FUNCTION

} // namespace eg::scalar
