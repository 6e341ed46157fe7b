#pragma once
// Factorises matrices with plain loops, for exact mode and for machines without LAPACK: WebAssembly, or no OpenBLAS.
// They add in one order that sizes alone determine and use no function but the square root, so their bits are the
// same on every machine. Matrices are f64, packed row by row.

#include <cstdint>

namespace eg::linalg::loops {

/// The symmetric a [n, n] becomes L with L L^T = a, zero above the diagonal. False where a is not positive definite.
bool cholesky(std::int64_t n, double* a);

/// b [n, k] becomes x with a x = b, by elimination with row pivots; a [n, n] is overwritten. False where a pivot is
/// zero or nothing but rounding (pivots.h).
bool solve(std::int64_t n, std::int64_t k, double* a, double* b);

/// a [n, n] becomes its inverse, with the same test.
bool invert(std::int64_t n, double* a);

/// A product of pivots: its sign and the logarithm of its size, 0 and -inf for a pivot that is zero; and itself, as
/// mantissa 2^exponent, since what is multiplied on the way may leave the range.
struct Determinant {
  double sign = 1.0;
  double log = 0.0;
  double mantissa = 1.0;
  std::int64_t exponent = 0;

  void multiply(double pivot);
  /// The product times 2^more.
  double value(std::int64_t more = 0) const;
};
/// That of a, which is overwritten.
Determinant determinant(std::int64_t n, double* a);

/// b [n, k] becomes x with t x = b, t the upper or lower triangle of a [n, n], with ones on the diagonal for `unit`.
/// The diagonal is not zero.
void solve_triangular(std::int64_t n, std::int64_t k, const double* a, bool upper, bool unit, double* b);

/// q [m, r], r = min(m, n), with orthonormal columns, and the upper triangle r [r, n]: a = q r, by Householder's
/// reflections. Signs are as they come. a [m, n] is overwritten.
void qr(std::int64_t m, std::int64_t n, double* a, double* q, double* r);

/// Ascending eigenvalues w [n] of the symmetric a [n, n] and its eigenvectors, the columns of v [n, n], by Jacobi's
/// rotations. Signs are as they come. a is overwritten. False where 60 sweeps do not suffice.
bool eigh(std::int64_t n, double* a, double* w, double* v);

/// a = u diag(s) vh with u [m, r], descending s [r], vh [r, n], r = min(m, n), by Jacobi's rotations of columns
/// (M. R. Hestenes, 1958). Signs are as they come. a [m, n] is overwritten. False where 60 sweeps do not suffice.
bool svd(std::int64_t m, std::int64_t n, double* a, double* u, double* s, double* vh);

/// y [columns, rows] becomes the transpose of x [rows, columns].
void transposed(std::int64_t rows, std::int64_t columns, const double* x, double* y);

} // namespace eg::linalg::loops
