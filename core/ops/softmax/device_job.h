#pragma once
// Defines the arguments of softmax kernels on devices.

#include "core/device/job_axes.h"
#include "core/dtype.h"

#include <cstdint>

namespace eg::device {

enum class SoftmaxKind : int { softmax, softmax_backward, log_softmax, log_softmax_backward };

/// A softmax, or its gradient, along the middle axis of packed [outer, extent, inner].
struct SoftmaxJob {
  SoftmaxKind kind;
  DType type;
  const void* a; ///< x; backward: y
  const void* b; ///< backward: g
  void* out;
  std::int64_t lines; ///< outer inner
  std::int64_t extent, inner;
};

/// y = softmax(x + mask) over rows of packed [rows, keys]; a row that sees nothing is 0.
struct MaskedSoftmaxJob {
  DType type;
  const void* x;
  void* y;
  const void* mask; ///< added to x, or bool (true: seen), or null
  bool mask_is_boolean;
  Axes<1> mask_rows;      ///< places of the mask's rows
  std::int64_t mask_step; ///< between its keys
  std::int64_t rows, keys;
  std::int64_t matrix_rows; ///< causal: row i of a matrix sees the keys j <= i + keys - matrix_rows
  bool causal;
};

} // namespace eg::device
