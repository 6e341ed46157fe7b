#pragma once
// Defines the arguments of the device kernels of dropout and drop_path.

#include "core/dtype.h"

#include <cstdint>

namespace eg::device {

/// y[i] = x[i] scale where word floor(i / group) of Philox(seed, stream) is above `last`, else 0; both packed, f32 or
/// f64.
struct DropoutJob {
  DType type;
  void* y;
  const void* x;
  std::int64_t count;
  std::int64_t group; ///< elements that share a word: 1, or those of a sample
  std::uint64_t seed, stream;
  std::uint32_t last; ///< the largest word that drops
  double scale;
};

} // namespace eg::device
