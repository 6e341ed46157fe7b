#pragma once
// Finds the pixels that each output of a pooling covers, one axis at a time, and declares its kernels.

#include "core/ops/fold/windows.h"
#include "core/ops/pool/device_job.h"

#include <vector>

namespace eg::pool {

/// Outputs along one axis: output i covers the places begin[i], begin[i] + step, ... below end[i], all in the image.
struct Bins {
  std::int64_t extent = 0;
  std::int64_t step = 1;
  std::vector<std::int64_t> begin, end;
  std::vector<double> divisor; ///< the mean divides by the product of both axes'

  std::int64_t count() const { return static_cast<std::int64_t>(begin.size()); }
};

struct Grid {
  Bins rows, columns;
  bool by_rows = false; ///< means add up whole rows (sum_of_rows)
  std::int64_t pixels() const { return rows.extent * columns.extent; }
  std::int64_t outputs() const { return rows.count() * columns.count(); }
};

/// The same before the bins are listed.
struct Rules {
  BinRule rows, columns;
  Grid grid() const;
};

/// A call before its bins are known: x [N, C, H, W], and outputs along both axes.
struct Extents {
  std::int64_t images, channels;
  Size2 image, count;

  Shape x_shape() const { return {images, channels, image.rows, image.columns}; }
  Shape y_shape() const { return {images, channels, count.rows, count.columns}; }
};

/// Checks of an input of four axes, and of the size that an adjoint's attribute gives. Throw.
Shape images_of(const OpArgs& args);
Size2 size_attribute(const OpArgs& args, std::string_view name);

/// Sliding windows: kernel_size, stride (default: the kernel), padding (at most half the kernel), ceil_mode and, where
/// the row declares it, dilation, on images of that shape. Throws.
Extents sliding_extents(const OpArgs& args, const Shape& images);
/// Their bins. Divisors: the row's `divisor`, else the elements with or without padding (count_include_pad).
Rules sliding_rules(const OpArgs& args, const Extents& e);

/// output_size bins, bin i of n from floor(i extent / n) to ceil((i + 1) extent / n).
Extents adaptive_extents(const OpArgs& args, const Shape& images);
Rules adaptive_rules(const Extents& e);

/// y = sum / divisor under every bin, for `planes` packed planes; dx is the adjoint. mean_exact: the order of the
/// pixels in a bin cannot matter.
template <class T> void mean_exact(const Grid& grid, std::int64_t planes, const T* x, T* y);
template <class T> void mean(const Grid& grid, std::int64_t planes, const T* x, T* y);
template <class T> void mean_backward(const Grid& grid, std::int64_t planes, const T* g, T* dx);
/// The same three on a device, with the CPU's bits: from x or g into `to`, and the places of the largest.
void start_on_device(const char* op, device::PoolJob::Kind kind, const Rules& rules, std::int64_t planes,
                     const Tensor& packed_from, Tensor& to, Tensor places = {});
/// Largest under every bin and its place in the plane; a NaN is larger than everything, the first of equals wins.
template <class T> void largest(const Grid& grid, std::int64_t planes, const T* x, T* y, std::int64_t* places);

} // namespace eg::pool
