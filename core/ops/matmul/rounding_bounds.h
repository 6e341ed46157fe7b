#pragma once
// Widens floats to double, and rounds double sums to float where a bound of their error decides how.

#include <cstdint>

namespace eg::rounding_bounds {

/// What bounds the products of a line: its largest magnitude and the sum of its squares; not finite where an entry is
/// not.
struct Magnitude {
  double largest = 0;
  double squares = 0;
};

/// to[j] = x[j], for n neighbours of one line.
Magnitude widen_line(std::int64_t n, const float* x, double* to);
/// The same for an entry of each of n lines, which joins largest[j] and squares[j].
void widen_across(std::int64_t n, const float* x, double* to, double* largest, double* squares);

/// Sums of a row of C, known but for norm * norms[j] + largest * most[j].
struct Row {
  std::int64_t n;
  const double* sums;
  double norm, largest;
  const double *norms, *most;
};
/// to[j] is the float next to all that sum j can be, or a NaN where there are several, zeros of both signs, or numbers
/// beyond the largest float. Returns whether there is such a NaN. No sum is one.
bool round_row(const Row& row, float* to);

} // namespace eg::rounding_bounds
