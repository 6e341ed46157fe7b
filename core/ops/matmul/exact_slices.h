#pragma once
// Cuts numbers into the slices whose products exact matrix products add (core/ops/matmul/exact.h).

#include <cstdint>

namespace eg::exact_slices {

/// Most slices of a number.
inline constexpr int most = 4;

/// n neighbours are multiplied by a factor (a power of two) and cut: slice s of x[j], a multiple of 2^(-(s+1) bits),
/// goes to to[s * slice_size + j]. x may be `to` itself.
struct Cut {
  std::int64_t n = 0;
  int slices = 0;
  int bits = 0;
  double* to = nullptr;
  std::int64_t slice_size = 0;
};

/// One factor for all. squares[s] grows by the sum of the squares of slice s. T is float or double.
template <class T> void cut_line(const Cut& cut, const T* x, double factor, double* squares);
/// factors[j] for x[j]. squares[s * step + j] grows by the square of slice s of x[j].
template <class T>
void cut_across(const Cut& cut, const T* x, const double* factors, double* squares, std::int64_t step);

} // namespace eg::exact_slices
