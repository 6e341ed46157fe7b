// unfold and fold: the windows of images as columns, and columns added back into images; each is the other's adjoint.

#include "core/call.h"
#include "core/device/module.h"
#include "core/ops.h"
#include "core/ops/fold/columns.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"
#include "core/ops/views/movement.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg {
namespace {

using windows::Axes;
using windows::Frame;

/// Extents of a call: images [N, C, H, W], columns [N, C kh kw, L].
struct Extents {
  std::int64_t images, channels;
  Axes axes;

  Shape image_shape() const { return {images, channels, axes.rows.extent, axes.columns.extent}; }
  Shape column_shape() const { return {images, channels * axes.taps(), axes.windows()}; }
};

Extents unfold_extents(const OpArgs& args) {
  check_floating(args, 0);
  const Shape& s = args.in[0].shape();
  if (s.rank() != 4) throw ShapeError(fmt::format("{}: x must be [N, C, H, W], it is {}", args.op.name, s.str()));
  const Extents e{s[0], s[1], windows::axes_of(args, windows::frame_of(args), {s[2], s[3]})};
  std::int64_t rows = 0;
  if (__builtin_mul_overflow(e.channels, e.axes.taps(), &rows))
    throw ValueError(fmt::format("{}: a column of {} channels and kernels of {} has more elements than can be counted",
                                 args.op.name, e.channels, e.axes.taps()));
  return e;
}

Extents fold_extents(const OpArgs& args) {
  check_floating(args, 0);
  const Shape& s = args.in[0].shape();
  if (s.rank() != 3)
    throw ShapeError(fmt::format("{}: x must be [N, C kh kw, windows], it is {}", args.op.name, s.str()));
  if (args.attrs.integers("output_size").empty())
    throw ValueError(fmt::format("{}: output_size must not be empty", args.op.name));
  const Size2 image = windows::pair_of(args, "output_size", 0, 0);
  const Extents e{s[0], 0, windows::axes_of(args, windows::frame_of(args), image)};
  if (s[1] % e.axes.taps() != 0)
    throw ShapeError(fmt::format("{}: axis 1 must hold whole windows of {} x {}: x is {}", args.op.name,
                                 e.axes.rows.kernel, e.axes.columns.kernel, s.str()));
  if (s[2] != e.axes.windows())
    throw ShapeError(fmt::format("{}: images of {} x {} have {} x {} windows: x is {}", args.op.name, image.rows,
                                 image.columns, e.axes.rows.count, e.axes.columns.count, s.str()));
  return {s[0], s[1] / e.axes.taps(), e.axes};
}

/// body(plane) for every channel of every image; planes are independent.
void each_plane(const Extents& e, std::int64_t plane_elements, FunctionRef<void(std::int64_t)> body) {
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, plane_elements));
  parallel::for_each(e.images * e.channels, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) body(p);
  });
}

void unfold_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Extents e = unfold_extents(args);
  if (out[0].numel() == 0) return;
  const Tensor x = packed(args.in[0]);
  visit_floating(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = out[0].mutable_data<T>("unfold");
    const std::int64_t size = e.axes.taps() * e.axes.windows();
    each_plane(e, size, [&](std::int64_t p) {
      windows::to_columns<T>(e.axes, {0, e.axes.rows.count}, 1, from + p * e.axes.pixels(), to + p * size);
    });
  });
}

void fold_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Extents e = fold_extents(args);
  if (out[0].numel() == 0) return;
  const Tensor x = packed(args.in[0]);
  visit_floating(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = out[0].mutable_data<T>("fold");
    const std::int64_t size = e.axes.taps() * e.axes.windows();
    each_plane(e, size, [&](std::int64_t p) {
      T* plane = to + p * e.axes.pixels();
      std::fill_n(plane, e.axes.pixels(), T(0));
      windows::add_columns<T>(e.axes, {0, e.axes.rows.count}, 1, from + p * size, plane);
    });
  });
}

void start_windows(const OpArgs& args, const Extents& e, Tensor& y,
                   device::Failure (*device::Table::*kernel)(int, const device::WindowsJob&)) {
  if (y.numel() == 0) return;
  const Tensor x = packed(args.in[0]);
  const auto axis = [](const windows::Axis& a) {
    return device::WindowAxis{a.extent, a.kernel, a.stride, a.padding, a.dilation, a.count};
  };
  const char* const name = args.op.name.data();
  const device::WindowsJob job{x.dtype(),         y.mutable_device_bytes(name), x.device_bytes(), e.images * e.channels,
                               axis(e.axes.rows), axis(e.axes.columns)};
  device::launch(x.device(), name, kernel, job);
}

/// visit(plane, tap, window, row, column) wherever an element of a window is inside its image.
void each_place(const Extents& e, FunctionRef<void(std::int64_t, std::int64_t, std::int64_t, std::int64_t)> visit) {
  const windows::Axis& r = e.axes.rows;
  const windows::Axis& c = e.axes.columns;
  for (std::int64_t u = 0; u < r.kernel; ++u)
    for (std::int64_t v = 0; v < c.kernel; ++v)
      for (std::int64_t i = 0; i < r.count; ++i)
        for (std::int64_t j = 0; j < c.count; ++j) {
          const std::int64_t row = i * r.stride - r.padding + u * r.dilation;
          const std::int64_t column = j * c.stride - c.padding + v * c.dilation;
          if (row >= 0 && row < r.extent && column >= 0 && column < c.extent)
            visit(u * c.kernel + v, i * c.count + j, row, column);
        }
}

std::vector<Tensor> unfold_reference(const OpArgs& args) {
  const Extents e = unfold_extents(args);
  Tensor y = reference_output(e.column_shape());
  for (std::int64_t p = 0; p < e.images * e.channels; ++p)
    each_place(e, [&](std::int64_t tap, std::int64_t window, std::int64_t row, std::int64_t column) {
      values(y)[(p * e.axes.taps() + tap) * e.axes.windows() + window] =
          values(args.in[0])[(p * e.axes.rows.extent + row) * e.axes.columns.extent + column];
    });
  return {y};
}

std::vector<Tensor> fold_reference(const OpArgs& args) {
  const Extents e = fold_extents(args);
  Tensor y = reference_output(e.image_shape());
  for (std::int64_t p = 0; p < e.images * e.channels; ++p)
    each_place(e, [&](std::int64_t tap, std::int64_t window, std::int64_t row, std::int64_t column) {
      values(y)[(p * e.axes.rows.extent + row) * e.axes.columns.extent + column] +=
          values(args.in[0])[(p * e.axes.taps() + tap) * e.axes.windows() + window];
    });
  return {y};
}

Attrs fold_attrs(const Frame& frame, Size2 image) {
  Attrs attrs = windows::frame_attrs(frame);
  attrs.set("output_size", windows::list(image));
  return attrs;
}

std::vector<Sample> unfold_samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, 2100 + tag); };
  const auto with = [](const Frame& frame) { return windows::frame_attrs(frame); };
  return {{{x({2, 3, 5, 6}, 1)}, with({{2, 3}}), "2 x 3 windows"},
          {{x({2, 2, 7, 9}, 2)}, with({{3}, {2}, {1}}), "stride and padding"},
          {{x({1, 2, 9, 7}, 3)}, with({{3, 2}, {1, 2}, {2, 0}, {2, 3}}), "dilated, every side another"},
          {{scattered(x({3, 2, 4, 5}, 4))}, with({{2}}), "transposed storage"},
          {{x({2, 3, 4, 4}, 5)}, with({{1}}), "windows of one pixel"},
          {{x({1, 1, 1, 1}, 6)}, with({{3}, {1}, {1}}), "one pixel amid padding"},
          {{x({0, 2, 3, 3}, 7)}, with({{2}}), "no images"}};
}

std::vector<Refusal> unfold_refuses() {
  const Tensor x = Tensor::zeros({1, 2, 4, 4});
  return {{{Tensor::zeros({2, 4, 4})}, windows::frame_attrs({{2}}), "x must be [N, C, H, W], it is [2, 4, 4]"},
          {{x}, windows::frame_attrs({{5}}), "the kernel is larger than the padded image: it covers 5 rows"},
          {{x}, windows::frame_attrs({{2, 0}}), "kernel_size is 0"},
          {{x}, windows::frame_attrs({{2}, {0}}), "stride is 0; it must be in [1, 2147483647]"},
          {{x}, windows::frame_attrs({{2}, {1}, {-1}}), "padding is -1"},
          {{x}, {{"kernel_size", std::vector<std::int64_t>{1, 2, 3}}}, "one number or two (rows, columns), it has 3"},
          {{x}, {{"kernel_size", std::vector<std::int64_t>{}}}, "kernel_size must not be empty"},
          {{x.to(DType::i64)}, windows::frame_attrs({{2}}), "x must be f32 or f64, it is i64"}};
}

std::vector<Sample> fold_samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, 2120 + tag); };
  return {{{x({2, 18, 16}, 1)}, fold_attrs({{2, 3}}, {5, 6}), "2 x 3 windows"},
          {{x({2, 18, 20}, 2)}, fold_attrs({{3}, {2}, {1}}, {7, 9}), "stride and padding"},
          {{x({1, 12, 18}, 3)}, fold_attrs({{3, 2}, {1, 2}, {2, 0}, {2, 3}}, {9, 7}), "dilated, every side another"},
          {{scattered(x({3, 8, 12}, 4))}, fold_attrs({{2}}, {4, 5}), "transposed storage"},
          {{x({2, 3, 16}, 5)}, fold_attrs({{1}}, {4, 4}), "windows of one pixel"},
          {{x({1, 9, 1}, 6)}, fold_attrs({{3}, {1}, {1}}, {1, 1}), "one pixel amid padding"},
          {{x({0, 8, 4}, 7)}, fold_attrs({{2}}, {3, 3}), "no images"}};
}

std::vector<Refusal> fold_refuses() {
  return {{{Tensor::zeros({8, 4})}, fold_attrs({{2}}, {3, 3}), "x must be [N, C kh kw, windows], it is [8, 4]"},
          {{Tensor::zeros({1, 7, 4})}, fold_attrs({{2}}, {3, 3}), "axis 1 must hold whole windows of 2 x 2"},
          {{Tensor::zeros({1, 8, 5})}, fold_attrs({{2}}, {3, 3}), "images of 3 x 3 have 2 x 2 windows"},
          {{Tensor::zeros({1, 8, 4})}, fold_attrs({{2}}, {-3, 3}), "output_size is -3"}};
}

std::vector<Symmetry> unfold_symmetries(const Sample& s) {
  std::vector<Symmetry> all{{"images", {in_leg(0, 0), out_leg(0, 0)}}};
  const std::vector<std::int64_t>& kernel = s.attrs.integers("kernel_size");
  if (kernel.front() * kernel.back() == 1) all.push_back({"channels", {in_leg(0, 1), out_leg(0, 1)}});
  return all;
}

constexpr AttrSpec kernel_attr =
    required_attr("kernel_size", AttrKind::integers, "rows and columns of a window; one number stands for both");
constexpr AttrSpec stride_attr = attr_ints("stride", "steps between windows; empty: 1");
constexpr AttrSpec padding_attr = attr_ints("padding", "zeros around the image; empty: 0");
constexpr AttrSpec dilation_attr = attr_ints("dilation", "steps between the elements of a window; empty: 1");

} // namespace

constinit const OpDef unfold_op = row({
    .name = "unfold",
    .math = "y[n, (c, u, v), (i, j)] = x[n, c, i s - p + u d, j s - p + v d], 0 outside",
    .inputs = {{"x"}},
    .attributes = {kernel_attr, stride_attr, padding_attr, dilation_attr},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      return {{unfold_extents(args).column_shape(), args.in[0].dtype()}};
    },
    .cpu = unfold_kernel,
    .cuda = [](const OpArgs& args,
               std::span<Tensor> out) { start_windows(args, unfold_extents(args), out[0], &device::Table::unfold); },
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& args) -> Gradients {
      const Shape& s = args.in[0].shape();
      const Frame f = windows::frame_of(args);
      return {fold(args.grad[0], {s[2], s[3]}, f.kernel, f.stride, f.padding, f.dilation)};
    },
    .reference = unfold_reference,
    .samples = unfold_samples,
    .refuses = unfold_refuses,
    .symmetries = unfold_symmetries,
    .work = movement_work,
});

constinit const OpDef fold_op = row({
    .name = "fold",
    .math = "y[n, c, r, q] = sum of x[n, (c, u, v), (i, j)] with r = i s - p + u d, q = j s - p + v d",
    .inputs = {{"x"}},
    .attributes = {required_attr("output_size", AttrKind::integers, "rows and columns of the images"), kernel_attr,
                   stride_attr, padding_attr, dilation_attr},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      return {{fold_extents(args).image_shape(), args.in[0].dtype()}};
    },
    .cpu = fold_kernel,
    .cuda = [](const OpArgs& args,
               std::span<Tensor> out) { start_windows(args, fold_extents(args), out[0], &device::Table::fold); },
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& args) -> Gradients {
      const Frame f = windows::frame_of(args);
      return {unfold(args.grad[0], f.kernel, f.stride, f.padding, f.dilation)};
    },
    .reference = fold_reference,
    .samples = fold_samples,
    .refuses = fold_refuses,
    .symmetries = unfold_symmetries,
    .work = scatter_work<0>,
});

Tensor unfold(const Tensor& x, Size2 kernel, Size2 stride, Size2 padding, Size2 dilation) {
  return call1(unfold_op, {x}, windows::frame_attrs({kernel, stride, padding, dilation}));
}

Tensor fold(const Tensor& x, Size2 output_size, Size2 kernel, Size2 stride, Size2 padding, Size2 dilation) {
  return call1(fold_op, {x}, fold_attrs({kernel, stride, padding, dilation}, output_size));
}

} // namespace eg
