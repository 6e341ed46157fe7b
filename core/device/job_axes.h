#pragma once
// Defines the axes of a loop over strided operands, as kernels get them.

#include <cstdint>

namespace eg::device {

inline constexpr int most_axes = 8;

/// The axes of one loop over N operands, outermost first, neighbouring ones merged where all operands allow it.
template <int N> struct Axes {
  int rank = 0;
  std::int64_t extent[most_axes] = {};
  std::int64_t stride[N][most_axes] = {}; ///< in elements; 0 repeats

  std::int64_t count() const {
    std::int64_t n = 1;
    for (int axis = 0; axis < rank; ++axis) n *= extent[axis];
    return n;
  }
};

} // namespace eg::device
