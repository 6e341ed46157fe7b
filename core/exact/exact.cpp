#include "core/exact/exact.h"

#include "core/exact/exact_grid.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace eg::exact {

namespace {

/// 1.5 * 2^k; without a call where it is a normal number.
double rounder_for(int k) {
  if (k < -1022 || k > 1023) return std::ldexp(1.5, k);
  return std::bit_cast<double>((static_cast<std::uint64_t>(k + 1023) << 52) | (std::uint64_t{1} << 51));
}

/// The least e with x < 2^e for a normal x, 0 for x = 0.
int exponent_of(double x) {
  const auto biased = static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52);
  if (biased != 0) return biased - 1022;
  int e = 0;
  std::frexp(x, &e);
  return e;
}

} // namespace

Grids grids_for(double largest, std::int64_t count) {
  constexpr int safe = 400; // below, sums of 2^30 terms and the grids stay far from overflow
  int e = exponent_of(largest);
  Grids grids;
  if (e > safe) {
    grids.scale = std::ldexp(1.0, -600);
    e -= 600;
  }
  const auto log_count =
      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 1) - 1)));
  int k = e + log_count + 1;
  for (double& grid : grids.rounder) {
    grid = rounder_for(k);
    k -= 51 - log_count;
  }
  return grids;
}

namespace {

constexpr std::int64_t piece = 32768;     // terms of a long row that one task adds up
constexpr std::int64_t column_block = 64; // columns of one task

/// What IEEE arithmetic gives for a sum with terms that are not finite.
template <class T> double special_sum(const T* x, std::int64_t n, std::int64_t stride) {
  double total = 0.0;
  for (std::int64_t i = 0; i < n; ++i)
    if (const auto t = static_cast<double>(x[i * stride]); !std::isfinite(t)) total += t;
  return std::isnan(total) ? std::numeric_limits<double>::quiet_NaN() : total;
}

double joined(const Parts& parts, const Grids& grids) {
  const double total = parts.sum[0] + (parts.sum[1] + parts.sum[2]);
  return grids.scale == 1.0 ? total : total / grids.scale;
}

/// A long row on all threads: the parts of its pieces add up without rounding.
template <class T> double long_row_sum(const T* x, std::int64_t n) {
  const std::int64_t pieces = parallel::chunks(n, piece);
  std::vector<Extent> extents(static_cast<std::size_t>(pieces));
  parallel::for_each(n, piece, [&](std::int64_t begin, std::int64_t end) {
    extents[static_cast<std::size_t>(begin / piece)] = extent_of(x + begin, end - begin);
  });
  Extent all;
  for (const Extent& extent : extents) all = {std::max(all.largest, extent.largest), all.finite && extent.finite};
  if (!all.finite) return special_sum(x, n, 1);
  const Grids grids = grids_for(all.largest, n);
  std::vector<Parts> parts(static_cast<std::size_t>(pieces));
  parallel::for_each(n, piece, [&](std::int64_t begin, std::int64_t end) {
    parts[static_cast<std::size_t>(begin / piece)] = parts_of(x + begin, end - begin, grids);
  });
  Parts total;
  for (const Parts& p : parts)
    for (int level = 0; level < levels; ++level) total.sum[level] += p.sum[level];
  return joined(total, grids);
}

} // namespace

template <class T> double row_sum(const T* x, std::int64_t n) {
  const Extent extent = extent_of(x, n);
  if (!extent.finite) return special_sum(x, n, 1);
  const Grids grids = grids_for(extent.largest, n);
  return joined(parts_of(x, n, grids), grids);
}

double sum(std::span<const double> terms) { return row_sum(terms.data(), static_cast<std::int64_t>(terms.size())); }

template <class T>
void column_sums(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, double* out) {
  std::vector<Extent> extents(static_cast<std::size_t>(columns));
  column_extents(x, rows, stride, columns, extents.data());
  std::vector<Grids> grids;
  grids.reserve(extents.size());
  for (const Extent& extent : extents) grids.push_back(grids_for(extent.finite ? extent.largest : 0.0, rows));
  std::vector<Parts> parts(extents.size());
  column_parts(x, rows, stride, columns, grids.data(), parts.data());
  for (std::size_t j = 0; j < extents.size(); ++j)
    out[j] = extents[j].finite ? joined(parts[j], grids[j]) : special_sum(x + j, rows, stride);
}

template <class T>
void sum_axis(const T* x, std::int64_t outer, std::int64_t extent, std::int64_t inner, double factor, T* y) {
  if (outer * inner == 0) return;
  if (inner == 1) {
    if (extent > piece) {
      for (std::int64_t o = 0; o < outer; ++o) y[o] = static_cast<T>(factor * long_row_sum(x + o * extent, extent));
      return;
    }
    const std::int64_t grain = std::max<std::int64_t>(1, piece / std::max<std::int64_t>(extent, 1));
    parallel::for_each(outer, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) y[o] = static_cast<T>(factor * row_sum(x + o * extent, extent));
    });
    return;
  }
  const std::int64_t blocks = parallel::chunks(inner, column_block);
  const std::int64_t grain = std::max<std::int64_t>(1, piece / std::max<std::int64_t>(extent * column_block, 1));
  parallel::for_each(outer * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    double totals[column_block];
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t o = task / blocks;
      const std::int64_t column = task % blocks * column_block;
      const std::int64_t width = std::min(column_block, inner - column);
      column_sums(x + o * extent * inner + column, extent, inner, width, totals);
      for (std::int64_t j = 0; j < width; ++j) y[o * inner + column + j] = static_cast<T>(factor * totals[j]);
    }
  });
}

template double row_sum(const float*, std::int64_t);
template double row_sum(const double*, std::int64_t);
template void column_sums(const float*, std::int64_t, std::int64_t, std::int64_t, double*);
template void column_sums(const double*, std::int64_t, std::int64_t, std::int64_t, double*);
template void sum_axis(const float*, std::int64_t, std::int64_t, std::int64_t, double, float*);
template void sum_axis(const double*, std::int64_t, std::int64_t, std::int64_t, double, double*);

} // namespace eg::exact
