#pragma once
// Cuts the terms of exact sums and adds the parts with vectors (core/exact/exact.h explains the method).

#include <cstdint>

namespace eg::exact {

inline constexpr int levels = 3;

/// Largest |x| of the finite terms, and whether all are finite.
struct Extent {
  double largest = 0.0;
  bool finite = true;
};

/// rounder[l] = 1.5 * 2^k: (t + rounder) - rounder is t rounded to a multiple of 2^(k - 52). Terms are multiplied by
/// `scale` (a power of two, 1 unless they are huge) first.
struct Grids {
  double scale = 1.0;
  double rounder[levels] = {};
};

/// Exact sums of the parts on each grid.
struct Parts {
  double sum[levels] = {};
};

/// The grids for `count` terms of which the largest has this magnitude.
Grids grids_for(double largest, std::int64_t count);

/// Of n packed elements. T is float or double.
template <class T> Extent extent_of(const T* x, std::int64_t n);
template <class T> Parts parts_of(const T* x, std::int64_t n, const Grids& grids);

/// The same for each column of x[r * stride + j], r < rows, j < columns.
template <class T>
void column_extents(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, Extent* out);
template <class T>
void column_parts(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, const Grids* grids,
                  Parts* out);

} // namespace eg::exact
