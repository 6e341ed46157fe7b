#pragma once
// Transposes a block of a matrix of numbers of 4 or 8 bytes.

#include <cstdint>

namespace eg::simd {

/// to[c * to_step + r] = from[r * from_step + c] for r < rows, c < columns, of float or double. On the calling thread;
/// best where both sides fit the first cache. `from` and `to` do not overlap.
template <class T>
void transpose(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t columns);

} // namespace eg::simd
