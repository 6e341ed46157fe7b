#pragma once
// Defines the arguments of the functions that losses are made of, on devices.

#include "core/dtype.h"

#include <cstdint>

namespace eg::device {

/// Huber's function of packed elements, or its slope, computed in f64.
struct HuberJob {
  bool slope;
  DType type;
  const void* x;
  void* y;
  std::int64_t count;
  double beta;
};

} // namespace eg::device
