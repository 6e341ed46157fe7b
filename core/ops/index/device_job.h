#pragma once
// Defines the arguments of the device kernels that take elements from, and add them to, indexed places.

#include "core/device/check.h"
#include "core/dtype.h"

#include <cstddef>
#include <cstdint>

namespace eg::device {

/// y[o, k, j] = x[o, index[p], j] with p = o index_o + k index_k + j index_j; all packed. x is [outer, extent, inner],
/// y [outer, count, inner]. An index outside [0, extent) is reported with its p, and 0 is written.
struct TakeJob {
  RowName row;
  void* y;
  const void* x;
  const std::int64_t* index;
  std::size_t size; ///< bytes of an element: 1, 2, 4 or 8
  std::int64_t outer, extent, count, inner;
  std::int64_t index_o, index_k, index_j;
};

/// inverse[r, permutation[r, i]] = i for `rows` permutations of n numbers, one after another. What is no permutation is
/// reported; places that no i fills hold n.
struct InvertJob {
  RowName row;
  std::int64_t* inverse;
  const std::int64_t* permutation;
  std::int64_t rows, n;
};

/// y[i, c] = one where x[i] = c, else 0, for i < count and c < classes. `one` is an element in its first bytes. An x
/// outside [0, classes) is reported.
struct OneHotJob {
  RowName row;
  void* y;
  const std::int64_t* x;
  std::size_t size; ///< bytes of an element: 1, 2, 4 or 8
  std::uint64_t one;
  std::int64_t count, classes;
};

/// y[o, index, j] += source[o, k, j] for k = 0, 1, ... in this order, with index[k] or, unless `shared`, index[o, k,
/// j]; y is [outer, extent, inner], source [outer, count, inner], all packed, f32, f64 or i64. An index outside [0,
/// extent) is reported and adds nothing.
struct ScatterJob {
  RowName row;
  void* y;
  const void* source;
  const std::int64_t* index;
  DType type;
  std::int64_t outer, extent, count, inner;
  bool shared;
  void* items; ///< scratch: item_bytes for each of lines (shared: 1, else outer inner) times sorted_line(count)
  std::size_t item_bytes; ///< 8, or 16 where an index or a place does not fit 32 bits
};

} // namespace eg::device
