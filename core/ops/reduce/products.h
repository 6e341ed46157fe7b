#pragma once
// Multiplies the elements of one packed row, or of columns, on the calling thread, with vectors.

#include <cstdint>

namespace eg::reduce {

// The functions below do nothing useful where an element is 0, subnormal (as a double), infinite or NaN, and say so.

/// mantissa * 2^exponent, 1/2 <= |mantissa| < 2: the product of n elements, unless `normal` is false.
struct RowProduct {
  double mantissa = 1;
  std::int64_t exponent = 0;
  bool normal = true;
};
template <class T> RowProduct row_product(const T* x, std::int64_t n);

/// mantissa[c] * 2^exponent[c], 1 <= |mantissa[c]| < 2: the product of column c of `rows` rows, `stride` elements from
/// row to row. odd[c]: whether the column has an element of the kinds above.
template <class T>
void column_products(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, double* mantissa,
                     std::int64_t* exponent, bool* odd);

/// Scratch elements beyond those of a row.
inline constexpr std::int64_t most_lanes = 8;
/// Scratch elements for each row of at least as many columns; most_lanes where they are fewer.
inline constexpr std::int64_t scratch_columns = 16;

/// y[i] = the product of the elements of a row other than x[i]. Scratch: n + most_lanes numbers each. False, with y
/// unwritten, where an element is of the kinds above.
template <class T> bool others_of_row(const T* x, std::int64_t n, T* y, double* mantissa, std::int64_t* exponent);

/// The same along columns of `rows` rows. y is laid out like x and must not overlap it. Scratch: rows * scratch_columns
/// numbers each, or rows * most_lanes for fewer columns. odd[c]: whether column c has an element of the kinds above;
/// column c of y then holds no result.
template <class T>
void others_of_columns(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, T* y, double* mantissa,
                       std::int64_t* exponent, bool* odd);

} // namespace eg::reduce
