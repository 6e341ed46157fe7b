#pragma once
// Multiplies matrices by slices of their numbers, whose products add up without rounding (core/ops/matmul/exact.h).

#include "core/gemm/blas.h"

#include <cstdint>

namespace eg::exact_slices {

/// One operand of a product: its lines are the rows of A, or the columns of B. Entry p of line i is at
/// data[i * line + p * step].
template <class T> struct Lines {
  const T* data;
  std::int64_t count, k;
  std::int64_t line, step;
};

/// Of A[M, K] and of B[K, N].
template <class T> Lines<T> rows_of(blas::Matrix<T> a, std::int64_t m, std::int64_t k) {
  return {a.data, m, k, a.transposed ? 1 : a.ld, a.transposed ? a.ld : 1};
}
template <class T> Lines<T> columns_of(blas::Matrix<T> b, std::int64_t n, std::int64_t k) {
  return {b.data, n, k, b.transposed ? b.ld : 1, b.transposed ? 1 : b.ld};
}

/// Bits of a slice, for sums of k terms: those of 4 k products of two slices stay below 2^53 of their grid.
int bits_for(std::int64_t k);

/// exact_gemm by all products of slices that its definition names; no extent is 0.
template <class T> void product(const Lines<T>& rows, const Lines<T>& columns, T* c, bool parallel);

/// n neighbours are multiplied by a factor (a power of two) and cut: slice s of x[j], a multiple of 2^(-(s+1) bits),
/// goes to to[s * slice_size + j]. x may be `to` itself.
struct Cut {
  std::int64_t n = 0;
  int slices = 0; ///< 3 or 4
  int bits = 0;
  double* to = nullptr;
  std::int64_t slice_size = 0;
};

/// One factor for all. T is float or double.
template <class T> void cut_line(const Cut& cut, const T* x, double factor);
/// factors[j] for x[j].
template <class T> void cut_across(const Cut& cut, const T* x, const double* factors);

/// The sum over n entries of x and y, all below 1 in magnitude, by three slices of each: the sums of order 2, 1 and 0
/// are exact and added in that order.
double sum_by_slices(std::int64_t n, int bits, const double* x, const double* y);

} // namespace eg::exact_slices
