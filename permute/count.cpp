#include "permute/count.h"

#include "core/exact/elementary.h"

namespace eg::permute {

double log2_factorial(std::int64_t n) {
  double bits = 0.0;
  for (std::int64_t i = 2; i <= n; ++i) bits += exact::log2(static_cast<double>(i));
  return bits;
}

} // namespace eg::permute
