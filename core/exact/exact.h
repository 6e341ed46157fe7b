#pragma once
// Computes sums that do not depend on the order of their terms, for the kernels of exact mode (core/reduction.h).
//
// A term t of n terms below 2^e is cut at fixed places, t = h1 + h2 + h3 + rest: h1 is t rounded to a multiple of
// 2^(e + log2 n - 51), h2 what is left rounded to a finer grid, and so on. Each sum of n such parts is an integer below
// 2^53 times its grid, so every addition is exact and their order cannot matter. The grids depend on max |t| and n,
// which no permutation changes. The rest is below 2^(3 log2 n - 154) max |t| and is dropped, for each term alone. (J.
// Demmel, H. D. Nguyen, "Fast reproducible floating-point summation", ARITH 2013.)

#include <cstdint>
#include <span>

namespace eg::exact {

/// The sum of the terms, the same for every order of them: what is below the finest grid is left out, and the three
/// parts are joined in double.
/// No terms: 0. A NaN or infinities of both signs: NaN. n below 2^30.
double sum(std::span<const double> terms);

/// The same for n packed elements, as double.
template <class T> double row_sum(const T* x, std::int64_t n);

/// out[j] = sum over r < rows of x[r * stride + j], for j < columns, on the calling thread.
template <class T>
void column_sums(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, double* out);

/// y[o, i] = factor * sum_e x[o, e, i] over a packed [outer, extent, inner], on all threads.
template <class T>
void sum_axis(const T* x, std::int64_t outer, std::int64_t extent, std::int64_t inner, double factor, T* y);

} // namespace eg::exact
