#include "core/ops/conv/geometry.h"

#include "core/base/error.h"

#include <fmt/format.h>

namespace eg::conv {

bool Conv::pointwise() const {
  const auto plain = [](const windows::Axis& a) { return a.kernel == 1 && a.stride == 1 && a.padding == 0; };
  return plain(axes.rows) && plain(axes.columns);
}

double Conv::flops() const {
  return 2.0 * static_cast<double>(images * axes.windows()) * static_cast<double>(groups * outputs) *
         static_cast<double>(depth());
}

Conv conv_of(const OpArgs& args, const Shape& x, const Shape& w) {
  const std::string_view op = args.op.name;
  const std::int64_t groups = args.attrs.integer("groups");
  if (groups < 1 || groups > windows::most)
    throw ValueError(fmt::format("{}: groups is {}; it must be in [1, {}]", op, groups, windows::most));
  if (x.rank() != 4) throw ShapeError(fmt::format("{}: x must be [N, Cin, H, W], it is {}", op, x.str()));
  if (w.rank() != 4)
    throw ShapeError(fmt::format("{}: weight must be [Cout, Cin / groups, kh, kw], it is {}", op, w.str()));
  if (x[1] % groups != 0 || x[1] / groups != w[1])
    throw ShapeError(fmt::format("{}: x's channels are not groups times the weight's: x is {}, weight is {}, groups {}",
                                 op, x.str(), w.str(), groups));
  if (w[0] % groups != 0)
    throw ShapeError(
        fmt::format("{}: {} output channels do not divide into {} groups: weight is {}", op, w[0], groups, w.str()));
  for (const std::int64_t side : {w[2], w[3]})
    if (side < 1 || side > windows::most)
      throw ShapeError(fmt::format("{}: the kernel has no extent that can be counted: weight is {}", op, w.str()));
  w.numel(); // refuses what cannot be counted
  return {x[0],
          groups,
          w[1],
          w[0] / groups,
          windows::axes_of(args, windows::frame_of(args, {w[2], w[3]}), {x[2], x[3]}),
          Conv{}.column_bytes};
}

Bands bands_of(const Conv& c, std::int64_t depth, std::size_t element) {
  constexpr double target = 1 << 20;
  const windows::Axes& a = c.axes;
  const double row = static_cast<double>(depth) * static_cast<double>(a.columns.count) * static_cast<double>(element);
  const auto fit = static_cast<std::int64_t>(
      std::clamp(target / std::max(row, 1.0), 1.0, static_cast<double>(std::max<std::int64_t>(a.rows.count, 1))));
  const std::int64_t count = (a.rows.count + fit - 1) / fit;
  return {count, (a.rows.count + count - 1) / count, a.rows.count};
}

ChannelBlocks blocks_of(const Conv& c, std::int64_t already) {
  constexpr std::int64_t wanted = 8;       // pieces of work, whatever the number of threads
  constexpr std::int64_t least_depth = 64; // thinner products run slowly
  const std::int64_t channels = std::max<std::int64_t>(c.inputs, 1);
  const std::int64_t most = std::max<std::int64_t>(1, channels * c.axes.taps() / least_depth);
  const std::int64_t pieces =
      std::clamp<std::int64_t>(wanted / std::max<std::int64_t>(already, 1), 1, std::min(most, channels));
  const std::int64_t size = (channels + pieces - 1) / pieces;
  return {(channels + size - 1) / size, size, c.inputs};
}

} // namespace eg::conv
