#pragma once
// Describes windows that slide over the rows and columns of images, for unfold, fold, convolution and pooling.

#include "core/op.h"
#include "core/ops.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace eg::windows {

/// Windows along one axis: window i covers the places first(i), first(i) + dilation, ... (`kernel` of them); places
/// outside [0, extent) are padding.
struct Axis {
  std::int64_t extent = 0, kernel = 1, stride = 1, padding = 0, dilation = 1;
  std::int64_t count = 0; ///< number of windows

  std::int64_t first(std::int64_t i) const { return i * stride - padding; }
  /// The windows whose element `tap` is inside the image are [reach(tap).begin, reach(tap).end).
  struct Range {
    std::int64_t begin, end;
  };
  Range reach(std::int64_t tap) const {
    const std::int64_t shift = padding - tap * dilation;
    const auto least = [&](std::int64_t place) { // smallest i >= 0 with i stride - shift >= place
      const std::int64_t at = place + shift;
      return at <= 0 ? 0 : std::min(count, (at + stride - 1) / stride);
    };
    const std::int64_t begin = least(0);
    return {begin, std::max(begin, least(extent))};
  }
};

struct Axes {
  Axis rows, columns;

  std::int64_t taps() const { return rows.kernel * columns.kernel; }
  std::int64_t windows() const { return rows.count * columns.count; }
  std::int64_t pixels() const { return rows.extent * columns.extent; }
};

/// Windows before their number is known.
struct Frame {
  Size2 kernel, stride{1}, padding{0}, dilation{1};
};

/// Largest value of every attribute and extent here: products of two of them can be counted.
inline constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;

/// Attribute of one or two integers (empty: `fallback`) in [least, most]. Throws ValueError.
Size2 pair_of(const OpArgs& args, std::string_view name, Size2 fallback, std::int64_t least);
/// kernel_size (unless given), stride, padding and dilation of a row that declares them.
Frame frame_of(const OpArgs& args);
Frame frame_of(const OpArgs& args, Size2 kernel);
/// The windows of that frame on images of rows x columns pixels. Throws ShapeError where not one fits, ValueError for
/// sizes that cannot be counted.
Axes axes_of(const OpArgs& args, const Frame& frame, Size2 image);

/// Attribute value, and attributes, of a frame.
std::vector<std::int64_t> list(Size2 pair);
Attrs frame_attrs(const Frame& frame);
/// The frame's attributes without the kernel, for rows that take it from a weight.
Attrs sliding_attrs(const Frame& frame);

} // namespace eg::windows
