#pragma once
// Computes norms of one packed row on the calling thread, with the bits of the row `norm`.

#include <cstdint>

namespace eg::reduce {

/// The root of the sum of squares of n elements.
template <class T> T row_length(const T* x, std::int64_t n);
/// The largest |x_i|; NaN where there is one.
template <class T> T row_largest(const T* x, std::int64_t n);

} // namespace eg::reduce
