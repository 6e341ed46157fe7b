#pragma once
// A number as an element of some type.

#include "core/dtype.h"

#include <cmath>
#include <limits>
#include <string_view>
#include <type_traits>

namespace eg {

/// Throws ValueError "pad: 1.5 is not a value of u8".
[[noreturn]] void refuse_element(std::string_view op, double value, DType dtype);

/// `value` as a T. An integer type holds whole numbers of its range alone, bool 0 and 1; others are
/// refused.
template <class T> T element_of(std::string_view op, double value) {
  if constexpr (std::is_integral_v<T>) {
    const double beyond = std::ldexp(1.0, std::numeric_limits<T>::digits);
    if (!(value >= static_cast<double>(std::numeric_limits<T>::min()) && value < beyond) || value != std::floor(value))
      refuse_element(op, value, dtype_of<T>);
  }
  return static_cast<T>(value);
}

} // namespace eg
