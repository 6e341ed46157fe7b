#pragma once
// Converts a number to an element type, or throws where the type does not hold it.

#include "core/dtype.h"

#include <cmath>
#include <limits>
#include <string_view>
#include <type_traits>

namespace eg {

/// Throws ValueError "pad: 1.5 is not a value of u8".
[[noreturn]] void refuse_element(std::string_view op, double value, DType dtype);

/// True when T has an element for `value`: an integer type holds whole numbers of its range alone, bool 0 and 1; a
/// floating type rounds every number.
template <class T> bool holds(double value) {
  if constexpr (std::is_integral_v<T>) {
    const double beyond = std::ldexp(1.0, std::numeric_limits<T>::digits);
    return value >= static_cast<double>(std::numeric_limits<T>::min()) && value < beyond && value == std::floor(value);
  }
  return true;
}

/// `value` as a T. Throws ValueError where T does not hold it.
template <class T> T element_of(std::string_view op, double value) {
  if (!holds<T>(value)) refuse_element(op, value, dtype_of<T>);
  return static_cast<T>(value);
}

} // namespace eg
