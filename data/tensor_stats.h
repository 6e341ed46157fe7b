#pragma once
// Computes statistics of a tensor's values.

#include "core/tensor.h"

#include <cstdint>

namespace eg::data {

/// Of the finite values, in double: least, largest, mean and standard deviation (divided by their number); NaN where
/// there are none.
struct TensorStats {
  std::int64_t finite = 0;
  std::int64_t nan = 0;
  std::int64_t infinite = 0;
  double min = 0;
  double max = 0;
  double mean = 0;
  double deviation = 0;
};

/// Of a tensor of any type; false is 0 and true is 1. The same for any number of threads. Throws Error for a tensor
/// without values.
TensorStats statistics(const Tensor& tensor);

} // namespace eg::data
