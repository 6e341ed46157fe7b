#pragma once
// Declares the sums over the taps of windows, for convolutions without products of matrices.

#include <cstdint>

namespace eg::conv {

/// Elements behind the planes that `tap_sums` may read.
inline constexpr std::int64_t slack = 16;

/// y[o * y_step + i * n + j] = start_o + sum_k weights[o * weight_step + k] planes[offsets[k] + i * row_step + j]
/// for o < outputs, i < rows, j < n. start_o is start[o], 0 where start is null, and what y holds where `adds`.
template <class T> struct TapSum {
  const T* planes;
  const std::int64_t* offsets;
  std::int64_t terms;
  const T* weights;
  std::int64_t weight_step, outputs;
  const T* start;
  T* y;
  std::int64_t y_step, n;
  bool adds = false;
  std::int64_t rows = 1, row_step = 0;
};

/// Each sum is a chain of fused multiply-adds in the order of k. Vectors are read whole: there must be `slack` numbers
/// behind the last that a sum reads.
template <class T> void tap_sums(const TapSum<T>& sums);

/// sums[k] += sum_ij g[i * n + j] planes[offsets[k] + i * row_step + j] for i < rows, j < n. A few hundred products are
/// added in T, those sums in double.
template <class T>
void tap_products(const T* g, std::int64_t rows, std::int64_t n, const T* planes, std::int64_t row_step,
                  const std::int64_t* offsets, std::int64_t terms, double* sums);

} // namespace eg::conv
