#pragma once
// Describes the extents of a convolution and how its work is cut.

#include "core/ops/fold/columns.h"

namespace eg::conv {

/// Extents of y[N, Cout, windows] = x[N, Cin, pixels] * w[Cout, Cin / groups, taps].
struct Conv {
  std::int64_t images = 0, groups = 1;
  std::int64_t inputs = 0;  ///< channels of x in one group
  std::int64_t outputs = 0; ///< channels of y in one group
  windows::Axes axes;
  std::int64_t column_bytes = std::int64_t{1} << 28; ///< most bytes of columns on a device, beyond those of one image

  Shape x_shape() const { return {images, groups * inputs, axes.rows.extent, axes.columns.extent}; }
  Shape y_shape() const { return {images, groups * outputs, axes.rows.count, axes.columns.count}; }
  Shape weight_shape() const { return {groups * outputs, inputs, axes.rows.kernel, axes.columns.kernel}; }
  /// Elements of x under one window of one group: the inner extent of the product.
  std::int64_t depth() const { return inputs * axes.taps(); }
  /// One weight a channel pair, each pixel its own window: x is already in columns.
  bool pointwise() const;
  double flops() const;
};

/// Checks x and weight (shapes; they need not be inputs of the row) against the row's attributes. Throws.
Conv conv_of(const OpArgs& args, const Shape& x, const Shape& weight);

/// Window rows of one image cut so that its columns take about 1 MiB.
struct Bands {
  std::int64_t count, rows, all;
  windows::Band operator[](std::int64_t i) const { return {i * rows, std::min(all, (i + 1) * rows)}; }
};
Bands bands_of(const Conv& c, std::int64_t depth, std::size_t element);

/// Input channels of a group cut into blocks, where images and groups alone are too few to share among threads.
struct ChannelBlocks {
  std::int64_t count, size, all;
  std::int64_t begin(std::int64_t i) const { return i * size; }
  std::int64_t channels(std::int64_t i) const { return std::min(all, (i + 1) * size) - i * size; }
};
ChannelBlocks blocks_of(const Conv& c, std::int64_t already);

} // namespace eg::conv
