#pragma once
// Defines the arguments of layer_norm and rms_norm on devices.

#include "core/dtype.h"

#include <cstdint>

namespace eg::device {

/// y = xh gamma + beta for packed rows of n elements; xh = (x - mean) / sqrt(var + eps), or x / sqrt(mean(x^2) + eps).
struct NormJob {
  DType type;
  bool centred; ///< layer_norm; otherwise rms_norm
  const void* x;
  const void* gamma; ///< or null
  const void* beta;  ///< or null
  void* y;
  std::int64_t rows, n;
  double eps;
};

/// dx = r (gh - mean(gh) - xh mean(gh xh)), gh = g gamma, without mean(gh) in rms_norm. dgamma = sum over rows of g xh
/// and dbeta = sum over rows of g, which are added up by chunks of rows.
struct NormBackwardJob {
  DType type;
  bool centred;
  const void* x;
  const void* gamma; ///< or null
  const void* g;
  void* dx;
  void* dgamma;       ///< or null, then there are no statistics and no partial sums
  void* dbeta;        ///< or null
  double* statistics; ///< 3 rows numbers
  double* partial;    ///< 2 chunks n numbers
  std::int64_t rows, n;
  std::int64_t chunk, chunks; ///< rows of each chunk but the last
  double eps;
};

} // namespace eg::device
