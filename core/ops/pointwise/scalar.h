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

/// The largest whole number below a / b, as Python's //: it belongs to remainder(a, b). a / b itself for b = 0, NaN
/// for an infinite a.
/// floor(a / b) would be 10 for 1 and 0.1, whose remainder is 0.1.
EG_DEVICE_FUNCTION inline double floor_divide(double a, double b) {
  if (b == 0.0) return a / b;
  const double rest = std::fmod(a, b); // NaN for an infinite a, and so is the result
  const double other_sign = rest != 0.0 && (rest < 0.0) != (b < 0.0) ? 1.0 : 0.0;
  const double whole = (a - rest) / b - other_sign;
  if (whole == 0.0) return std::copysign(0.0, a / b);
  const double below = std::floor(whole);
  return whole - below > 0.5 ? below + 1.0 : below;
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
  EG_FUNCTION(asin)
  EG_FUNCTION(acos)
  EG_FUNCTION(sinh)
  EG_FUNCTION(cosh)
  EG_FUNCTION(asinh)
  EG_FUNCTION(acosh)
  EG_FUNCTION(atanh)
  EG_FUNCTION(log10)
  EG_FUNCTION(erf)
  EG_FUNCTION(erfc)
  EG_DEVICE_FUNCTION static double pow(double x, double y) { return std::pow(x, y); }
  EG_DEVICE_FUNCTION static double atan2(double y, double x) { return std::atan2(y, x); }
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
  EG_FUNCTION(asin)
  EG_FUNCTION(acos)
  EG_FUNCTION(sinh)
  EG_FUNCTION(cosh)
  EG_FUNCTION(asinh)
  EG_FUNCTION(acosh)
  EG_FUNCTION(atanh)
  EG_FUNCTION(log10)
  EG_FUNCTION(erf)
  EG_FUNCTION(erfc)
  static double pow(double x, double y) { return exact::pow(x, y); }
  static double atan2(double y, double x) { return exact::atan2(y, x); }
};
#undef EG_FUNCTION

} // namespace eg::scalar
