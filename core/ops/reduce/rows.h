#pragma once
// Reduces one packed row, or columns, on the calling thread, with vectors: the same bits at every address.

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

/// sum of exp(x_i - shift) in double.
template <class T> double row_exp_sum(const T* x, std::int64_t n, double shift);

/// sum of x_i^2 in double: of floats every square is a number.
template <class T> double row_squares(const T* x, std::int64_t n);

/// chains_sum (chains.h) of x_i in double, with its bits.
template <class T> double row_chains_sum(const T* x, std::int64_t n);

/// y[c] = the largest (or smallest) of column c of `rows` >= 1 rows, as row_extreme; `stride` elements from row to row.
template <class T>
void column_extremes(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, bool largest, T* y);

} // namespace eg::reduce
