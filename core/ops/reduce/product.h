#pragma once
// Multiplies many numbers without overflow or underflow on the way, on the CPU and on devices.

#include "core/device/qualifiers.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace eg::reduce {

/// value = result * 2^n with 1/2 <= |result| < 1, and n goes to `exponent`: frexp without a call for most numbers.
EG_DEVICE_FUNCTION inline double take_powers(double value, std::int64_t& exponent) {
  constexpr std::uint64_t field = 0x7FF0000000000000, field_of_half = 0x3FE0000000000000;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t own = bits & field;
  if (own == 0 || own == field) { // 0, subnormal, infinite, NaN
    if (own == field || value == 0) return value;
    int power = 0;
    const double mantissa = frexp(value, &power);
    exponent += power;
    return mantissa;
  }
  exponent += static_cast<std::int64_t>(own >> 52) - 1022;
  return std::bit_cast<double>((bits ^ own) | field_of_half);
}

/// mantissa * 2^exponent.
struct Product {
  double mantissa = 1;
  std::int64_t exponent = 0;

  EG_DEVICE_FUNCTION void times(double factor) {
    mantissa = take_powers(mantissa * take_powers(factor, exponent), exponent);
  }
  EG_DEVICE_FUNCTION void times(const Product& other) {
    times(other.mantissa);
    exponent += other.exponent;
  }
  EG_DEVICE_FUNCTION double value() const {
    if (exponent > -1000 && exponent < 1000) // 2^exponent is a number
      return mantissa * std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
    return ldexp(mantissa, static_cast<int>(exponent < -9999 ? -9999 : exponent > 9999 ? 9999 : exponent));
  }
};

} // namespace eg::reduce
