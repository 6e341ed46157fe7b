// The three products of a convolution in exact mode: windows as columns (unfold), then products whose sums may come in
// any order. Columns of one image are in memory at a time; the gradient of the weight, which sums over images, needs
// those of all.

#include "core/ops/conv/exact.h"

#include "core/ops.h"
#include "core/ops/row_tools.h"

namespace eg::conv {
namespace {

struct Window {
  Size2 kernel, stride, padding, dilation;
};

Window window_of(const Conv& c) {
  const windows::Axis &r = c.axes.rows, &q = c.axes.columns;
  return {{r.kernel, q.kernel}, {r.stride, q.stride}, {r.padding, q.padding}, {r.dilation, q.dilation}};
}

/// [images, groups, depth, windows] of x [images, channels, H, W]
Tensor columns_of(const Conv& c, const Tensor& x) {
  const Window w = window_of(c);
  return unfold(x, w.kernel, w.stride, w.padding, w.dilation)
      .reshape({x.shape()[0], c.groups, c.depth(), c.axes.windows()});
}

/// [groups, outputs, depth] of weight
Tensor by_groups(const Conv& c, const Tensor& weight) {
  return packed(weight).reshape({c.groups, c.outputs, c.depth()});
}

Tensor image(const Tensor& x, std::int64_t n) { return x.slice(0, n, n + 1); }

} // namespace

void exact_forward(const Conv& c, const OpArgs& args, Tensor& y) {
  const Tensor w = by_groups(c, args.in[1]);
  Shape one = c.y_shape();
  one[0] = 1;
  for (std::int64_t n = 0; n < c.images; ++n) {
    Tensor image_y = matmul(w, columns_of(c, image(args.in[0], n))).reshape(one);
    if (args.given(2)) image_y = image_y + args.in[2].reshape({-1, 1, 1});
    Tensor to = image(y, n);
    to.copy_from(image_y);
  }
}

void exact_input_backward(const Conv& c, const OpArgs& args, Tensor& dx) {
  const Tensor w = by_groups(c, args.in[0]);
  const Window at = window_of(c);
  for (std::int64_t n = 0; n < c.images; ++n) {
    const Tensor g = packed(image(args.in[1], n)).reshape({1, c.groups, c.outputs, c.axes.windows()});
    const Tensor columns = matmul(w, g, true).reshape({1, c.groups * c.depth(), c.axes.windows()});
    Tensor to = image(dx, n);
    to.copy_from(
        fold(columns, {c.axes.rows.extent, c.axes.columns.extent}, at.kernel, at.stride, at.padding, at.dilation));
  }
}

void exact_weight_backward(const Conv& c, const OpArgs& args, Tensor& dw) {
  const std::int64_t places = c.images * c.axes.windows();
  const Tensor columns = packed(columns_of(c, args.in[0]).permute({1, 2, 0, 3})).reshape({c.groups, c.depth(), places});
  const Tensor g = packed(args.in[1]).reshape({c.images, c.groups, c.outputs, c.axes.windows()});
  const Tensor cotangents = packed(g.permute({1, 2, 0, 3})).reshape({c.groups, c.outputs, places});
  assign(dw, matmul(cotangents, columns, false, true).reshape(c.weight_shape()));
}

} // namespace eg::conv
