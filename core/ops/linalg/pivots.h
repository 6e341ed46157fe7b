#pragma once
// Distinguishes a singular matrix from one that is only badly scaled, by the pivots of its elimination.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace eg::linalg {

/// Whether some pivot of A = L U is zero, or no larger than what rounding makes of it. at(i, j) is entry (i, j) of L,
/// whose diagonal is 1, below the diagonal and of U elsewhere.
///
/// Elimination gives the factors of A + E with |E| <= n eps |L||U|. To first order that moves pivot k by w^T E v, with
/// w and v the combinations of the first k rows and columns that leave the pivot alone: w^T A v = u_kk. So the pivot is
/// rounding where |u_kk| <= 2 n eps |w|^T |L||U| |v|. Factors of rows and columns cancel on both sides.
template <class At> bool has_pivot_of_rounding(std::int64_t n, const At& at) {
  constexpr double suspicious = 1e-6;
  std::vector<double> v(static_cast<std::size_t>(n)), w(v.size()), sums(v.size()), rows(v.size()), columns(v.size());
  const auto element = [](std::vector<double>& x, std::int64_t i) -> double& { return x[static_cast<std::size_t>(i)]; };
  // Row and column sums of |L||U|: only a pivot that is small beside one of them, or comes later, is worth the bound.
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) element(i <= j ? sums : columns, i <= j ? i : j) += std::abs(at(i, j));
  for (std::int64_t i = 0; i < n; ++i) {
    element(rows, i) = element(sums, i);
    for (std::int64_t j = 0; j < i; ++j) element(rows, i) += std::abs(at(i, j)) * element(sums, j);
  }
  std::swap(sums, columns); // now 1^T |L| without the diagonal
  for (std::int64_t j = 0; j < n; ++j) {
    element(columns, j) = 0;
    for (std::int64_t i = 0; i <= j; ++i) element(columns, j) += (1 + element(sums, i)) * std::abs(at(i, j));
  }
  bool ill = false; // from the first small pivot on, w and v can be large
  for (std::int64_t k = 0; k < n; ++k) {
    const double pivot = std::abs(at(k, k));
    if (pivot == 0 || !std::isfinite(pivot)) return true;
    ill = ill || pivot <= suspicious * std::max(element(rows, k), element(columns, k));
    if (!ill) continue;
    element(v, k) = element(w, k) = 1;
    for (std::int64_t i = k - 1; i >= 0; --i) { // U v = u_kk e_k, w^T L = e_k^T
      double right = -at(i, k), left = -at(k, i);
      for (std::int64_t j = i + 1; j < k; ++j) {
        right -= at(i, j) * element(v, j);
        left -= at(j, i) * element(w, j);
      }
      element(v, i) = right / at(i, i);
      element(w, i) = left;
    }
    double rounding = 0;
    for (std::int64_t i = 0; i <= k; ++i) {
      double& sum = element(sums, i) = 0;
      for (std::int64_t j = i; j <= k; ++j) sum += std::abs(at(i, j) * element(v, j));
      double row = sum;
      for (std::int64_t j = 0; j < i; ++j) row += std::abs(at(i, j)) * element(sums, j);
      rounding += std::abs(element(w, i)) * row;
    }
    if (!(pivot > 2 * static_cast<double>(n) * std::numeric_limits<double>::epsilon() * rounding)) return true;
  }
  return false;
}

} // namespace eg::linalg
