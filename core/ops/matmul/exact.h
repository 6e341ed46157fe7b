#pragma once
// Computes matrix products whose sums are the same for every order of the inner axis.

#include "core/gemm/blas.h"

#include <cstdint>

namespace eg {

/// C[M, N] = A[M, K] B[K, N], packed; every sum over K is exact up to a fixed number of bits below the largest entries
/// of the row of A and the column of B, then rounded to T: no permutation of the inner axis changes a bit, and none of
/// rows or columns does more than move them.
///
/// Its definition: each row of A and column of B is scaled below 1 by a power of two and cut into slices of b bits, b =
/// (53 - log2(4 K)) / 2, so that all sums of products of two slices are exact in double, whatever their order. float: 3
/// slices (at least 54 bits below the largest entry for K < 2^14); double: 4 (72 bits). What is smaller is dropped
/// entry by entry. The sums of slices s and t with one s + t are added in double, the finest first, up to s + t = 2
/// (double: 3). (K. Ozaki, T. Ogita, S. Oishi, S. M. Rump, "Error-free transformations of matrix multiplication by
/// using fast routines of matrix multiplication and its applications", Numerical Algorithms 59, 2012.)
///
/// Of floats, one product in double is computed instead. Its error, and what the definition drops and rounds, are below
/// u (r + 8) |a| |b| + 5 K 2^(-3 b) max|a| max|b|, u = 2^-53, with Euclidean norms of the row and the column: products
/// of floats are exact in double, and a sum is rounded r times at most (K, or 512 + K / 512). What is dropped takes 4
/// of the 5 (lines are at least 1/2 after scaling); the rest, and the 8, are for the additions of the definition and of
/// the bound. Where one float is next to all numbers within that bound it is the element. Elsewhere slices of the row
/// and the column decide.
///
/// Entries that are not finite give what IEEE arithmetic gives. parallel: on all threads, else on the calling one.
template <class T>
void exact_gemm(std::int64_t m, std::int64_t n, std::int64_t k, blas::Matrix<T> a, blas::Matrix<T> b, T* c,
                bool parallel);

} // namespace eg
