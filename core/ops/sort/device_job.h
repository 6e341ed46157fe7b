#pragma once
// Defines the arguments of the device kernels that sort lines.

#include "core/dtype.h"

#include <cstddef>
#include <cstdint>

namespace eg::device {

/// Room for the items of a line of `extent` elements: the next power of two, at least 1.
constexpr std::int64_t sorted_line(std::int64_t extent) {
  std::int64_t room = 1;
  while (room < extent) room *= 2;
  return room;
}

/// The first k elements of each line of x [outer, extent, inner] along its middle axis in the order of
/// core/ops/sort/key.h, and their places in the line: values (unless nullptr) and places are [outer, k, inner]. In the
/// order of their places instead where by_place. All packed; f32 or f64.
struct SortJob {
  DType type;
  const void* x;
  void* values;
  std::int64_t* places;
  std::int64_t outer, extent, inner, k;
  bool descending, by_place;
  void* items;            ///< scratch: item_bytes for each of outer inner lines times sorted_line(extent)
  std::size_t item_bytes; ///< 8, or 16 for f64 and for lines that 32 bits do not count
};

} // namespace eg::device
