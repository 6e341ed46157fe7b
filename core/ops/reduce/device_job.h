#pragma once
// Defines the arguments of reductions and scans on devices.

#include "core/device/job_axes.h"
#include "core/dtype.h"

#include <cstdint>

namespace eg::device {

/// What a reduction makes of the elements of each group. n is their number, `given` a number for each group.
enum class ReduceKind : int {
  sum,          ///< factor times the sum
  mean,         ///< factor times the sum, also where the sum itself leaves the type; small = 2^-e, 2^e > n
  largest,      ///< the first largest, NaN before all; its place
  smallest,     ///< the same of the smallest
  any,          ///< some element differs from 0
  all,          ///< every element differs from 0
  nonzeros,     ///< how many do
  product,      ///< the product, which neither overflows nor vanishes on the way
  variance,     ///< factor times the sum of (x - given)^2
  deviation,    ///< its root
  size_sum,     ///< sum of |x|
  root_squares, ///< sqrt(sum of x^2)
  largest_size, ///< largest |x|, or NaN
  power_norm,   ///< given (sum of (|x| / given)^p)^(1/p)
  log_sum_exp,  ///< given + log(sum of exp(x - given)); given where it is not finite
};

/// The elements of each group in order: first by chunks, then the chunks.
struct ReduceJob {
  ReduceKind kind;
  DType type;           ///< of x
  void* y;              ///< [groups], of x's type (any, all: bool; nonzeros: i64), or null
  std::int64_t* places; ///< [groups] for largest and smallest, or null
  double* wide;         ///< [groups]: the result before it is rounded to y, or null
  const void* x;        ///< groups.stride[0] and elements.stride[0] give the places of its elements
  const double* given;  ///< [groups], or null
  double* partial;      ///< 3 groups chunks numbers, or null for one chunk
  Axes<1> groups;
  Axes<1> elements;
  std::int64_t chunk; ///< elements of each chunk but the last
  std::int64_t chunks;
  bool by_group; ///< a thread takes a group; otherwise a team of threads does
  double factor, small, p;
};

/// y = x - means, computed in f64. Operands: y, x, means (f64).
struct CenterJob {
  DType type;
  void* y;
  const void* x;
  const double* means;
  Axes<3> axes;
};

enum class ScanKind : int { sum, product, linear, others };

/// A scan along the middle axis of packed [outer, extent, inner], a thread for each line.
struct ScanJob {
  ScanKind kind;
  DType type; ///< f32 or f64; i64 too for sums
  bool reverse;
  const void* x; ///< the terms or factors; of a linear scan the factors
  const void* b; ///< terms of a linear scan
  void* y;
  void* scratch; ///< others: 16 bytes for each element
  std::int64_t outer, extent, inner;
};

} // namespace eg::device
