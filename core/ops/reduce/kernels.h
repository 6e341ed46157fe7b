#pragma once
// Computes sums over one axis with a fixed order of additions. Short chains in vector lanes and blocks joined as a tree
// make a float sum of millions of terms good to a few units in the last place, and the same for any number of threads.

#include "core/ops/row_tools.h"

#include <cstdint>

namespace eg::reduce {

/// Elements of the blocks that row_sum joins.
inline constexpr std::int64_t row_block = 1024;
/// Elements of a long row that one task sums: a sum over one is that of these sums, as row_sum.
inline constexpr std::int64_t row_piece = 32 * row_block;

/// before + the sum of n packed elements on the calling thread; blocks are added in double, one by one.
template <class T> double row_sum(const T* x, std::int64_t n, double before = 0.0);

/// out[j] = sum over rows r of x[r * stride + j], j < columns, on the calling thread. rows >= 0.
template <class T> void column_sums(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, T* out);

/// The same of columns that lie along memory: out[j] = sum over r < rows of x[j * step + r], with the bits of
/// column_sums but for the sign of a NaN where two meet, which compilers choose.
template <class T>
void column_sums_along(const T* x, std::int64_t rows, std::int64_t step, std::int64_t columns, T* out);

/// Bytes of the room that block_sums works in: half of a second-level cache.
inline constexpr std::int64_t block_sums_room = 256 * 1024;

/// sums[r * step] = row_sum of the n <= row_block numbers x[k * stride + r], r < rows, on the calling thread: rows side
/// by side, for those whose neighbours in memory belong to other rows.
template <class T>
void block_sums(const T* x, std::int64_t n, std::int64_t stride, std::int64_t rows, T* room, double* sums,
                std::int64_t step);

/// y = factor * sum of x over its axes [begin, end), packed, on all threads. The bits do not depend on the strides of
/// x, which is read where it lies.
template <class T> void sum_axes(const Tensor& x, int begin, int end, double factor, T* y);

} // namespace eg::reduce
