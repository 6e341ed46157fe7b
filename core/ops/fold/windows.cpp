#include "core/ops/fold/windows.h"

#include "core/base/error.h"

#include <fmt/format.h>

namespace eg::windows {
namespace {

Axis axis_of(const OpArgs& args, const char* name, Axis a) {
  if (a.extent > most)
    throw ValueError(
        fmt::format("{}: images have {} {}, at most {} can be counted", args.op.name, a.extent, name, most));
  const std::int64_t covered = a.dilation * (a.kernel - 1) + 1;
  const std::int64_t room = a.extent + 2 * a.padding - covered;
  if (room < 0)
    throw ShapeError(fmt::format("{}: the kernel is larger than the padded image: it covers {} {}, the image has {} "
                                 "and {} of padding on both sides",
                                 args.op.name, covered, name, a.extent, a.padding));
  a.count = room / a.stride + 1;
  return a;
}

} // namespace

Size2 pair_of(const OpArgs& args, std::string_view name, Size2 fallback, std::int64_t least) {
  const std::vector<std::int64_t>& given = args.attrs.integers(name);
  if (given.empty()) return fallback;
  if (given.size() > 2)
    throw ValueError(
        fmt::format("{}: {} must be one number or two (rows, columns), it has {}", args.op.name, name, given.size()));
  for (const std::int64_t value : given)
    if (value < least || value > most)
      throw ValueError(fmt::format("{}: {} is {}; it must be in [{}, {}]", args.op.name, name, value, least, most));
  return {given.front(), given.back()};
}

Frame frame_of(const OpArgs& args, Size2 kernel) {
  return {kernel, pair_of(args, "stride", 1, 1), pair_of(args, "padding", 0, 0), pair_of(args, "dilation", 1, 1)};
}

Frame frame_of(const OpArgs& args) {
  const Size2 kernel = pair_of(args, "kernel_size", 0, 1);
  if (kernel.rows == 0) throw ValueError(fmt::format("{}: kernel_size must not be empty", args.op.name));
  return frame_of(args, kernel);
}

Axes axes_of(const OpArgs& args, const Frame& f, Size2 image) {
  return {axis_of(args, "rows", {image.rows, f.kernel.rows, f.stride.rows, f.padding.rows, f.dilation.rows}),
          axis_of(args, "columns",
                  {image.columns, f.kernel.columns, f.stride.columns, f.padding.columns, f.dilation.columns})};
}

std::vector<std::int64_t> list(Size2 pair) { return {pair.rows, pair.columns}; }

Attrs sliding_attrs(const Frame& f) {
  return {{"stride", list(f.stride)}, {"padding", list(f.padding)}, {"dilation", list(f.dilation)}};
}

Attrs frame_attrs(const Frame& f) {
  Attrs attrs = sliding_attrs(f);
  attrs.set("kernel_size", list(f.kernel));
  return attrs;
}

} // namespace eg::windows
