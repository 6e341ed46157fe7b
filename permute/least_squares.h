#pragma once
// Solves least squares in double precision, for linear attacks.

#include "core/random.h"

#include <cstdint>
#include <vector>

namespace eg::permute {

/// A P = Q R of a matrix A [m, n] (f32 or f64, computed in f64) by Householder reflections with column pivoting: Golub
/// and Van Loan, Matrix Computations, 5.4. O(m n min(m, n)). Diagonal elements of R below `tolerance` times the first
/// end the rank.
class PivotedQr {
public:
  /// Throws ShapeError unless A has two axes, neither empty; ValueError when it holds a NaN or an infinity.
  explicit PivotedQr(const Tensor& a, double tolerance = 1e-11);

  std::int64_t rank() const { return rank_; }
  /// X [n, k] with the least |A X - B|, B [m, k]: the basic solution, zero for the columns of A beyond the rank.
  /// Throws ShapeError.
  Tensor solve(const Tensor& b) const;
  /// Orthonormal columns N [m, m - rank] with A^T N = 0: the null space of A^T.
  Tensor null_space() const;
  /// Q [m, m], orthogonal.
  Tensor q() const { return q_from(0); }

private:
  double* column(std::int64_t j) { return at_.data() + j * m_; }
  const double* column(std::int64_t j) const { return at_.data() + j * m_; }
  void bring_largest(std::int64_t k);
  void reflect(std::int64_t k);
  /// x <- H_k x, and x <- Q^T x or Q x.
  void apply(std::int64_t k, double* x) const;
  void apply_transposed_q(double* x) const;
  void apply_q(double* x) const;
  /// The columns of Q from `first` on.
  Tensor q_from(std::int64_t first) const;
  std::vector<double> back_substituted(const double* y) const;

  std::int64_t m_ = 0, n_ = 0, rank_ = 0;
  std::vector<double> at_;           ///< by columns: R above the diagonal, the reflections' vectors below and on it
  std::vector<double> diagonal_;     ///< of R
  std::vector<std::int64_t> pivots_; ///< column j of A P is column pivots_[j] of A
};

/// An orthogonal matrix [size, size], uniform but for signs: Q of a normal matrix (Stewart, SIAM J. Numerical Analysis
/// 17, 1980). Not secret. f64.
Tensor random_orthogonal(std::int64_t size, RandomKey key);

} // namespace eg::permute
