#pragma once
// Counts permutations, in bits.

#include <cstdint>

namespace eg::permute {

/// log2 n!, of the number of permutations of n things, with the same bits on every machine (core/exact/elementary.h).
double log2_factorial(std::int64_t n);

} // namespace eg::permute
