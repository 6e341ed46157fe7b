#pragma once
// Rounds the numbers of quantize_int8, for the host and for device kernels.

#include "core/device/qualifiers.h"

#include <bit>
#include <cstdint>

namespace eg::quantize {

/// s rounded to 16 significant bits, so that s q is exact in f32.
EG_DEVICE_FUNCTION inline double rounded_to_16_bits(double s) {
  constexpr std::uint64_t dropped = (std::uint64_t{1} << 37) - 1; // of 52 bits behind the point, 15 stay
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(s) + (dropped + 1) / 2) & ~dropped);
}

/// x to the nearest whole number, halves to the even one, for |x| < 2^51: adding 1.5 2^52 leaves no bits behind the
/// point.
EG_DEVICE_FUNCTION inline double nearest(double x) {
  constexpr double rounder = 6755399441055744.0;
  return x + rounder - rounder;
}

/// Scale of a row whose largest magnitude is `largest`; not below the least normal number of f32.
EG_DEVICE_FUNCTION inline double scale_of(double largest) {
  const double scale = rounded_to_16_bits(largest / 127.0);
  return scale < 0x1p-126 ? 0x1p-126 : scale;
}

} // namespace eg::quantize
