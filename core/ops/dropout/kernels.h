#pragma once
// Declares the dropout kernel.

#include "core/random.h"

#include <cmath>
#include <cstdint>

namespace eg {

/// The largest 32-bit word with word * 2^-32 < p, for p > 0.
inline std::uint32_t largest_dropped(double p) { return static_cast<std::uint32_t>(std::ceil(p * 0x1.0p32) - 1.0); }

/// y[i] = x[i] * scale where word `first + i` of the key's Philox sequence is above `last`, else 0, for i < n on the
/// calling thread: uniform_at(key, first + i) > last / 2^32. first is a multiple of 4.
template <class T>
void dropout_chunk(const T* x, T* y, std::int64_t n, std::int64_t first, RandomKey key, std::uint32_t last,
                   double scale);

} // namespace eg
