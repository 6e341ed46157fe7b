#pragma once
// Converts one element to another element type, as the row `cast` defines it.

#include "core/bf16.h"
#include "core/device/qualifiers.h"

#include <cstdint>
#include <limits>
#include <type_traits>

namespace eg {

/// 2^digits of an integer type, the first number beyond its range, in a floating type, which holds it exactly.
template <class Floating, class Integer> constexpr Floating first_beyond() {
  Floating power = 1;
  for (int i = 0; i < std::numeric_limits<Integer>::digits; ++i) power *= 2;
  return power;
}

/// Numbers beyond an integer type's range become its nearest end and NaN becomes 0: C++ leaves both undefined. bool is
/// value != 0, and everything else is rounded to nearest, ties to even.
template <class To, class From> EG_DEVICE_FUNCTION constexpr To converted(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From{};
  } else if constexpr (std::is_same_v<From, BFloat16>) {
    return converted<To>(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    if (value != value) return To{};
    constexpr From low = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From beyond = first_beyond<From, To>();
    if (value <= low) return std::numeric_limits<To>::min();
    return value >= beyond ? std::numeric_limits<To>::max() : static_cast<To>(value);
  } else if constexpr (std::is_same_v<To, std::uint8_t> && std::is_same_v<From, std::int64_t>) {
    return static_cast<To>(value < 0 ? 0 : value > 255 ? 255 : value);
  } else {
    return static_cast<To>(value);
  }
}

} // namespace eg
