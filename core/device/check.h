#pragma once
// Defines how a kernel reports a value that it refuses: the reasons, and the name of its row.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace eg::device {

/// Why a check on the device failed: KernelError::code. In the words, `value` and so on are fields of KernelError.
enum class Refused : int {
  none = 0,
  outside = 1,    ///< "value is outside [0, limit)"
  index = 2,      ///< "index value at position is outside [0, limit)"
  number = 3,     ///< "x is value at position; it must be in [0, limit)"
  repeated = 4,   ///< "not a permutation of 0..limit - 1: value occurs at positions other and position"
  not_finite = 5, ///< "weight is value at [other, position]": value holds the bits of a double
  label = 6,      ///< "label value of row position is outside [0, limit): there are limit classes"
};

/// The name of a row, as a kernel can carry it.
struct RowName {
  char text[40] = {};

  RowName() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a name is a name
  RowName(std::string_view name) {
    for (std::size_t i = 0; i < name.size() && i + 1 < sizeof text; ++i) text[i] = name[i];
  }
};

} // namespace eg::device
