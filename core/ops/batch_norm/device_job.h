#pragma once
// Defines the arguments of batch_norm on devices.

#include "core/dtype.h"

#include <cstdint>

namespace eg::device {

/// Normalisation of each channel of packed [samples, channels, inner] by its own statistics; with g, the gradients.
struct BatchNormJob {
  DType type;
  const void* x;
  const void* gamma; ///< [channels], or null
  const void* beta;  ///< forward; or null
  const void* g;     ///< backward: the cotangent of y; null: forward
  void* y;           ///< backward: dx
  void* mean;        ///< forward, [channels]
  void* variance;    ///< forward, [channels]
  void* dgamma;      ///< backward, [channels], or null
  void* dbeta;       ///< backward, [channels], or null
  std::int64_t samples, channels, inner;
  double eps;
};

} // namespace eg::device
