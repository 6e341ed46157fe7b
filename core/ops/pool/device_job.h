#pragma once
// Defines the arguments of the device kernels of poolings.

#include "core/dtype.h"

#include <cstdint>

namespace eg::pool {

/// Outputs along one axis: sliding windows, or `count` bins of an adaptive pooling.
struct BinRule {
  std::int64_t extent = 0, count = 0;
  bool adaptive = false;
  std::int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
  bool count_include_pad = false; ///< padding counts among the elements of a mean
  double fixed = 0;               ///< what this axis contributes to the divisor of a mean; 0: the elements
};

} // namespace eg::pool

namespace eg::device {

/// A pooling of packed planes: the mean under every bin, its adjoint, or the largest and its place in the plane. f32 or
/// f64.
struct PoolJob {
  enum class Kind : int { mean, mean_backward, largest };
  Kind kind;
  DType type;
  void* to;
  const void* from;
  std::int64_t* places; ///< of the largest
  std::int64_t planes;
  pool::BinRule rows, columns;
};

} // namespace eg::device
