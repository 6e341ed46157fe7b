#include "core/ops/conv/on_device.h"

#include "core/base/function_ref.h"
#include "core/device/axes.h"
#include "core/device/transfer.h"
#include "core/ops.h"
#include "core/ops/matmul/device_product.h"
#include "core/ops/row_tools.h"

#include <algorithm>
#include <array>

namespace eg::conv {
namespace {

/// Windows of x [images, channels, H, W] as columns [images, channels taps, windows], packed; x itself where a window
/// is a pixel.
Tensor columns_of(const Conv& c, const Tensor& x) {
  const windows::Axis &r = c.axes.rows, &q = c.axes.columns;
  if (c.pointwise()) return packed(x).reshape({x.shape()[0], x.shape()[1], c.axes.windows()});
  return unfold(x, {r.kernel, q.kernel}, {r.stride, q.stride}, {r.padding, q.padding}, {r.dilation, q.dilation});
}

/// The adjoint.
Tensor images_of(const Conv& c, const Tensor& columns) {
  const windows::Axis &r = c.axes.rows, &q = c.axes.columns;
  if (c.pointwise()) return columns.reshape({columns.shape()[0], columns.shape()[1], r.extent, q.extent});
  return fold(columns, {r.extent, q.extent}, {r.kernel, q.kernel}, {r.stride, q.stride}, {r.padding, q.padding},
              {r.dilation, q.dilation});
}

/// visit(first, last) for images [first, last) whose columns may be in memory together.
void each_part(const Conv& c, DType dtype, FunctionRef<void(std::int64_t, std::int64_t)> visit) {
  const auto most_bytes = static_cast<double>(c.column_bytes);
  const double bytes = static_cast<double>(c.groups * c.depth()) * static_cast<double>(c.axes.windows()) *
                       static_cast<double>(size_of(dtype));
  const auto step = static_cast<std::int64_t>(
      std::clamp(most_bytes / std::max(bytes, 1.0), 1.0, static_cast<double>(std::max<std::int64_t>(c.images, 1))));
  for (std::int64_t first = 0; first < c.images; first += step) visit(first, std::min(first + step, c.images));
}

/// [groups, outputs, depth] of weight
Tensor by_groups(const Conv& c, const Tensor& weight) {
  return packed(weight).reshape({c.groups, c.outputs, c.depth()});
}

/// x [images, groups rows, windows] as [groups, rows, images windows], packed.
Tensor images_inside(const Conv& c, const Tensor& x, std::int64_t rows) {
  const std::int64_t images = x.shape()[0];
  const Tensor moved = x.reshape({images, c.groups, rows, c.axes.windows()}).permute({1, 2, 0, 3});
  return packed(moved).reshape({c.groups, rows, images * c.axes.windows()});
}

} // namespace

void device_forward(const Conv& c, const OpArgs& args, Tensor& y) {
  const bool has_bias = args.given(2);
  if (has_bias) {
    const Tensor bias = packed(args.in[2]);
    device::copy_elements(y, bias.view_as(c.y_shape(), {0, 1, 0, 0}, 0));
  }
  const std::int64_t places = c.axes.windows(), of_group = c.outputs * places;
  const Tensor w = device::rounded_operand(packed(args.in[1]));
  each_part(c, y.dtype(), [&](std::int64_t first, std::int64_t last) {
    const Tensor columns = device::rounded_operand(columns_of(c, args.in[0].slice(0, first, last)));
    const std::array<Shape, 3> strides = {Shape{c.groups * of_group, of_group}, Shape{0, c.outputs * c.depth()},
                                          Shape{c.groups * c.depth() * places, c.depth() * places}};
    const device::Product product{.m = c.outputs,
                                  .n = places,
                                  .k = c.depth(),
                                  .a = {w, 0, std::max<std::int64_t>(c.depth(), 1), 1},
                                  .b = {columns, 0, places, 1},
                                  .accumulate = has_bias,
                                  .batch = device::merged_axes<3>({last - first, c.groups}, strides)};
    device::start_product("conv2d", product, y, first * c.groups * of_group, places);
  });
}

void device_input_backward(const Conv& c, const OpArgs& args, Tensor& dx) {
  const Tensor w = by_groups(c, args.in[0]);
  each_part(c, dx.dtype(), [&](std::int64_t first, std::int64_t last) {
    const std::int64_t images = last - first, places = c.axes.windows();
    const Tensor g = packed(args.in[1].slice(0, first, last)).reshape({images, c.groups, c.outputs, places});
    const Tensor columns = matmul(w, g, true).reshape({images, c.groups * c.depth(), places});
    Tensor to = dx.slice(0, first, last);
    device::copy_elements(to, images_of(c, columns));
  });
}

void device_weight_backward(const Conv& c, const OpArgs& args, Tensor& dw) {
  Tensor sum;
  each_part(c, dw.dtype(), [&](std::int64_t first, std::int64_t last) {
    const Tensor columns = columns_of(c, args.in[0].slice(0, first, last));
    const Tensor g = packed(args.in[1].slice(0, first, last));
    const Tensor of_g = images_inside(c, g.reshape({last - first, c.groups * c.outputs, c.axes.windows()}), c.outputs);
    const Tensor part = matmul(of_g, images_inside(c, columns, c.depth()), false, true);
    sum = sum.defined() ? sum + part : part;
  });
  if (!sum.defined()) sum = Tensor::zeros(c.weight_shape(), dw.dtype()); // no images
  assign(dw, sum.reshape(c.weight_shape()));
}

} // namespace eg::conv
