#include "core/ops/pool/bins.h"

#include "core/base/error.h"
#include "core/device/module.h"
#include "core/exact/exact.h"
#include "core/ops/pool/bin.h"
#include "core/ops/reduce/rows.h"
#include "core/ops/row_tools.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg::pool {
namespace {

using windows::Axis;

bool declares(const OpArgs& args, std::string_view name) {
  return std::any_of(args.op.attributes.begin(), args.op.attributes.end(),
                     [&](const AttrSpec& spec) { return spec.name == name; });
}

/// Number of windows; with ceil_mode the last may reach beyond the padding but must begin in the image.
void count_windows(const OpArgs& args, const char* name, bool ceil_mode, Axis& a) {
  if (2 * a.padding > a.kernel)
    throw ValueError(fmt::format("{}: padding must be at most half the kernel: {} and {} {}", args.op.name, a.padding,
                                 a.kernel, name));
  const std::int64_t room = a.extent + 2 * a.padding - a.dilation * (a.kernel - 1) - 1 + (ceil_mode ? a.stride - 1 : 0);
  if (room < 0 || a.extent < 1 || a.extent > windows::most)
    throw ShapeError(fmt::format("{}: no window fits: the image has {} {} and {} of padding on both sides, a window "
                                 "covers {}",
                                 args.op.name, a.extent, name, a.padding, a.dilation * (a.kernel - 1) + 1));
  a.count = room / a.stride + 1;
  if (ceil_mode && (a.count - 1) * a.stride >= a.extent + a.padding) --a.count;
  // Only windows that begin in the padding, and step over the whole image, hold nothing of it.
  for (std::int64_t i = 0; i < a.count && a.first(i) < 0; ++i)
    if (a.first(i) + (-a.first(i) + a.dilation - 1) / a.dilation * a.dilation >= a.extent)
      throw ShapeError(fmt::format("{}: window {} of the {} covers padding alone: the image has {}, dilation is {}",
                                   args.op.name, i, name, a.extent, a.dilation));
}

windows::Axes sliding_axes(const OpArgs& args, Size2 image) {
  const Size2 kernel = windows::pair_of(args, "kernel_size", 0, 1);
  if (kernel.rows == 0) throw ValueError(fmt::format("{}: kernel_size must not be empty", args.op.name));
  const Size2 stride = windows::pair_of(args, "stride", kernel, 1);
  const Size2 padding = windows::pair_of(args, "padding", 0, 0);
  const Size2 dilation = declares(args, "dilation") ? windows::pair_of(args, "dilation", 1, 1) : Size2(1);
  windows::Axes axes{{image.rows, kernel.rows, stride.rows, padding.rows, dilation.rows},
                     {image.columns, kernel.columns, stride.columns, padding.columns, dilation.columns}};
  const bool ceil_mode = args.attrs.flag("ceil_mode");
  count_windows(args, "rows", ceil_mode, axes.rows);
  count_windows(args, "columns", ceil_mode, axes.columns);
  return axes;
}

/// Divisors of a mean that one axis contributes.
struct Divisors {
  bool count_include_pad;
  double fixed; // 0: count
};

BinRule sliding_rule(const Axis& a, Divisors divisors) {
  return {a.extent,      a.count, false, a.kernel, a.stride, a.padding, a.dilation, divisors.count_include_pad,
          divisors.fixed};
}

BinRule adaptive_rule(std::int64_t extent, std::int64_t count) {
  return {.extent = extent, .count = count, .adaptive = true};
}

Bins listed(const BinRule& rule) {
  Bins bins{rule.extent, rule.dilation, {}, {}, {}};
  for (std::int64_t i = 0; i < rule.count; ++i) {
    const Bin bin = bin_of(rule, i);
    bins.begin.push_back(bin.begin);
    bins.end.push_back(bin.end);
    bins.divisor.push_back(bin.divisor);
  }
  return bins;
}

/// body(plane) for every plane; `several`: for every first one of so many.
void each_plane(const Grid& grid, std::int64_t planes, FunctionRef<void(std::int64_t)> body, std::int64_t several = 1) {
  const std::int64_t elements = several * (grid.pixels() + grid.outputs());
  parallel::for_each(parallel::chunks(planes, several),
                     std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, elements)),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t p = begin; p < end; ++p) body(p * several);
                     });
}

/// visit(output, row bin, column bin) in order.
template <class Visit> void each_output(const Grid& grid, Visit visit) {
  std::size_t output = 0;
  for (std::size_t i = 0; i < grid.rows.begin.size(); ++i)
    for (std::size_t j = 0; j < grid.columns.begin.size(); ++j, ++output) visit(output, i, j);
}

} // namespace

Shape images_of(const OpArgs& args) {
  check_all_floating(args);
  const Shape& s = args.in[0].shape();
  if (s.rank() != 4)
    throw ShapeError(
        fmt::format("{}: {} must be [N, C, H, W], it is {}", args.op.name, args.op.inputs[0].name, s.str()));
  return s;
}

Size2 size_attribute(const OpArgs& args, std::string_view name) {
  if (args.attrs.integers(name).empty()) throw ValueError(fmt::format("{}: {} must not be empty", args.op.name, name));
  return windows::pair_of(args, name, 0, 0);
}

Extents sliding_extents(const OpArgs& args, const Shape& images) {
  const windows::Axes axes = sliding_axes(args, {images[2], images[3]});
  if (declares(args, "divisor") && args.attrs.integer("divisor") < 0)
    throw ValueError(
        fmt::format("{}: divisor is {}; it must not be negative", args.op.name, args.attrs.integer("divisor")));
  return {images[0], images[1], {images[2], images[3]}, {axes.rows.count, axes.columns.count}};
}

Rules sliding_rules(const OpArgs& args, const Extents& e) {
  const windows::Axes axes = sliding_axes(args, e.image);
  const bool padded = declares(args, "count_include_pad") && args.attrs.flag("count_include_pad");
  const double fixed = declares(args, "divisor") ? static_cast<double>(args.attrs.integer("divisor")) : 0.0;
  return {sliding_rule(axes.rows, {padded, fixed}), sliding_rule(axes.columns, {padded, fixed != 0 ? 1.0 : 0.0})};
}

Extents adaptive_extents(const OpArgs& args, const Shape& images) {
  const Size2 count = size_attribute(args, "output_size");
  if (images[2] < 1 || images[3] < 1 || images[2] > windows::most || images[3] > windows::most)
    throw ShapeError(
        fmt::format("{}: the image has no pixels, or more than can be counted: x is {}", args.op.name, images.str()));
  return {images[0], images[1], {images[2], images[3]}, count};
}

Rules adaptive_rules(const Extents& e) {
  return {adaptive_rule(e.image.rows, e.count.rows), adaptive_rule(e.image.columns, e.count.columns)};
}

Grid Rules::grid() const { return {listed(rows), listed(columns), sums_rows(rows, columns)}; }

void start_on_device(const char* op, device::PoolJob::Kind kind, const Rules& rules, std::int64_t planes,
                     const Tensor& packed_from, Tensor& to, Tensor places) {
  const device::PoolJob job{kind,
                            to.dtype(),
                            to.mutable_device_bytes(op),
                            packed_from.device_bytes(),
                            places.defined() ? reinterpret_cast<std::int64_t*>(places.mutable_device_bytes(op))
                                             : nullptr,
                            planes,
                            rules.rows,
                            rules.columns};
  device::launch(to.device(), op, &device::Table::pool, job);
}

namespace {
/// The means of so many planes, side by side: a sum waits for its own additions alone.
template <int several, class T> void means(const Grid& grid, const T* x, T* y) {
  const Bins& rows = grid.rows;
  const Bins& columns = grid.columns;
  const std::int64_t pixels = grid.pixels(), outputs = grid.outputs();
  each_output(grid, [&](std::size_t output, std::size_t i, std::size_t j) {
    double sums[several] = {};
    for (std::int64_t r = rows.begin[i]; r < rows.end[i]; ++r)
      for (std::int64_t q = columns.begin[j]; q < columns.end[j]; ++q)
        for (int p = 0; p < several; ++p) sums[p] += static_cast<double>(x[p * pixels + r * columns.extent + q]);
    for (int p = 0; p < several; ++p)
      y[p * outputs + static_cast<std::int64_t>(output)] =
          static_cast<T>(sums[p] / (rows.divisor[i] * columns.divisor[j]));
  });
}

/// The means of so many planes whose bins are whole rows, with the bits of sum_of_rows.
template <int several, class T> void means_of_rows(const Grid& grid, const T* x, T* y) {
  const Bins& rows = grid.rows;
  const std::int64_t width = grid.columns.extent, outputs = rows.count();
  double sums[several];
  for (std::size_t i = 0; i < rows.begin.size(); ++i) {
    reduce::row_chains_sums(x + rows.begin[i] * width, several, (rows.end[i] - rows.begin[i]) * width, grid.pixels(),
                            sums);
    for (int p = 0; p < several; ++p)
      y[p * outputs + static_cast<std::int64_t>(i)] =
          static_cast<T>(sums[p] / (rows.divisor[i] * grid.columns.divisor[0]));
  }
}
} // namespace

template <class T> void mean(const Grid& grid, std::int64_t planes, const T* x, T* y) {
  constexpr int several = 8;
  const auto run = [&](auto function, std::int64_t p) {
    function(grid, x + p * grid.pixels(), y + p * grid.outputs());
  };
  const auto body = [&](std::int64_t first) {
    if (first + several <= planes) return run(grid.by_rows ? means_of_rows<several, T> : means<several, T>, first);
    for (std::int64_t p = first; p < planes; ++p) run(grid.by_rows ? means_of_rows<1, T> : means<1, T>, p);
  };
  each_plane(grid, planes, body, several);
}

template <class T> void mean_exact(const Grid& grid, std::int64_t planes, const T* x, T* y) {
  const Bins& rows = grid.rows;
  const Bins& columns = grid.columns;
  each_plane(grid, planes, [&](std::int64_t p) {
    const T* plane = x + p * grid.pixels();
    T* to = y + p * grid.outputs();
    std::vector<double> terms;
    each_output(grid, [&](std::size_t output, std::size_t i, std::size_t j) {
      terms.clear();
      for (std::int64_t r = rows.begin[i]; r < rows.end[i]; ++r)
        terms.insert(terms.end(), plane + r * columns.extent + columns.begin[j],
                     plane + r * columns.extent + columns.end[j]);
      to[output] = static_cast<T>(exact::sum(terms) / (rows.divisor[i] * columns.divisor[j]));
    });
  });
}

template <class T> void mean_backward(const Grid& grid, std::int64_t planes, const T* g, T* dx) {
  const Bins& rows = grid.rows;
  const Bins& columns = grid.columns;
  each_plane(grid, planes, [&](std::int64_t p) {
    const T* from = g + p * grid.outputs();
    T* plane = dx + p * grid.pixels();
    std::fill_n(plane, grid.pixels(), T(0));
    each_output(grid, [&](std::size_t output, std::size_t i, std::size_t j) {
      const T share = static_cast<T>(static_cast<double>(from[output]) / (rows.divisor[i] * columns.divisor[j]));
      for (std::int64_t r = rows.begin[i]; r < rows.end[i]; ++r)
        for (std::int64_t q = columns.begin[j]; q < columns.end[j]; ++q) plane[r * columns.extent + q] += share;
    });
  });
}

template <class T> void largest(const Grid& grid, std::int64_t planes, const T* x, T* y, std::int64_t* places) {
  const Bins& rows = grid.rows;
  const Bins& columns = grid.columns;
  each_plane(grid, planes, [&](std::int64_t p) {
    const T* plane = x + p * grid.pixels();
    each_output(grid, [&](std::size_t output, std::size_t i, std::size_t j) {
      std::int64_t best = rows.begin[i] * columns.extent + columns.begin[j];
      for (std::int64_t r = rows.begin[i]; r < rows.end[i]; r += rows.step)
        for (std::int64_t q = columns.begin[j]; q < columns.end[j]; q += columns.step) {
          const T value = plane[r * columns.extent + q];
          if (value > plane[best] || (std::isnan(value) && !std::isnan(plane[best]))) best = r * columns.extent + q;
        }
      const std::int64_t at = p * grid.outputs() + static_cast<std::int64_t>(output);
      y[at] = plane[best];
      places[at] = best;
    });
  });
}

#define EG_INSTANTIATE(T)                                                                                              \
  template void mean<T>(const Grid&, std::int64_t, const T*, T*);                                                      \
  template void mean_exact<T>(const Grid&, std::int64_t, const T*, T*);                                                \
  template void mean_backward<T>(const Grid&, std::int64_t, const T*, T*);                                             \
  template void largest<T>(const Grid&, std::int64_t, const T*, T*, std::int64_t*);
EG_INSTANTIATE(float)
EG_INSTANTIATE(double)
#undef EG_INSTANTIATE

} // namespace eg::pool
