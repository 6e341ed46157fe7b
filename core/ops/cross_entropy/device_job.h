#pragma once
// Defines the arguments of cross_entropy on devices.

#include "core/device/check.h"
#include "core/dtype.h"

#include <cstdint>

namespace eg::device {

/// What the two kernels share. A label that is neither in [0, classes) nor `ignore` is reported.
struct CrossEntropyRows {
  RowName row;
  DType type;
  const void* logits;         ///< packed [rows, classes]
  const std::int64_t* labels; ///< packed [rows]
  std::int64_t rows, classes, ignore;
  double smoothing;
  bool is_mean; ///< of the rows that count
  bool by_row;  ///< a loss, or a cotangent, for each row
};

struct CrossEntropyJob {
  CrossEntropyRows in;
  void* loss;
  void* largest;   ///< [rows]
  void* log_total; ///< [rows]
  double* losses;  ///< [rows], unless by_row
};

struct CrossEntropyBackwardJob {
  CrossEntropyRows in;
  const void* largest;   ///< packed [rows]
  const void* log_total; ///< packed [rows]
  const void* g;
  const void* dlog; ///< packed [rows], or null
  void* dlogits;
  double* factor; ///< one number, for is_mean
};

} // namespace eg::device
