#pragma once
// Copies every other number of a run.

#include <cstdint>

namespace eg::simd {

/// to[i] = from[2 i] for i < n, of float or double, on the calling thread. Reads nothing behind from[2 (n - 1)].
template <class T> void every_other(const T* from, std::int64_t n, T* to);

} // namespace eg::simd
