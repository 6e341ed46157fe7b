#pragma once
// Computes sums over one axis with a fixed order of additions. Short chains in vector lanes and blocks joined as a tree
// make a float sum of millions of terms good to a few units in the last place, and the same for any number of threads.

#include "core/ops/row_tools.h"

#include <cstdint>

namespace eg::reduce {

/// Elements of a long row that one task sums: a sum over one is that of these sums, as row_sum.
inline constexpr std::int64_t row_piece = 32768;

/// before + the sum of n packed elements on the calling thread; blocks of 1024 are added in double, one by one.
template <class T> double row_sum(const T* x, std::int64_t n, double before = 0.0);

/// out[j] = sum over rows r of x[r * stride + j], j < columns, on the calling thread. rows >= 0.
template <class T> void column_sums(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, T* out);

/// y[o, i] = factor * sum_e x[o, e, i] over a packed [outer, extent, inner], on all threads.
template <class T> void sum_axis(const T* x, AxisSplit split, double factor, T* y);

} // namespace eg::reduce
