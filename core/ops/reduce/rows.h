#pragma once
// Reduces packed rows, or columns, on the calling thread, with vectors: the same bits at every address.

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace eg::reduce {

/// The largest (or smallest) of n >= 1 elements; the first NaN where there is one. Of 0 and -0 either.
template <class T> T row_extreme(const T* x, std::int64_t n, bool largest);
/// The same of numbers of any type but bf16.
template <class T> T extreme_of(const T* x, std::int64_t n, bool largest) {
  if constexpr (std::is_integral_v<T>)
    return largest ? *std::max_element(x, x + n) : *std::min_element(x, x + n);
  else
    return row_extreme(x, n, largest);
}

/// sum of exp(x_i - shift) in double. Of floats: each to a relative error of 2^-40, 1 where x_i is the shift, and never
/// below 2^-200.
template <class T> double row_exp_sum(const T* x, std::int64_t n, double shift);

/// sums[c] = the same of column c with shifts[c], over `rows` rows; `stride` elements from row to row.
template <class T>
void column_exp_sums(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, const double* shifts,
                     double* sums);

/// sum of x_i^2 in double: of floats every square is a number.
template <class T> double row_squares(const T* x, std::int64_t n);

/// sums[r] = chains_sum (chains.h) of the n elements x_ri in double, with its bits; `stride` elements from row to row.
template <class T>
void row_chains_sums(const T* x, std::int64_t rows, std::int64_t n, std::int64_t stride, double* sums);

/// y[c] = the largest (or smallest) of column c of `rows` >= 1 rows, as row_extreme; `stride` elements from row to row.
template <class T>
void column_extremes(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, bool largest, T* y);

} // namespace eg::reduce
