#pragma once
// Defines the arguments of the device kernel of tril and triu.

#include <cstddef>
#include <cstdint>

namespace eg::device {

/// y[r, c] = x[r, c] where c - r <= diagonal (lower) or c - r >= diagonal (upper), else 0, for matrices [rows, columns]
/// one after another; both packed.
struct TriangleJob {
  void* y;
  const void* x;
  std::size_t size; ///< bytes of an element: 1, 2, 4 or 8
  std::int64_t count, rows, columns, diagonal;
  bool lower;
};

} // namespace eg::device
