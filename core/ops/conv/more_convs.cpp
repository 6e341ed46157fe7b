// Rows of conv1d and of the transposes of conv1d and conv2d, made of conv2d and its adjoint.

#include "core/ops/conv/geometry.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"

#include <fmt/format.h>

namespace eg {
namespace {

using conv::Conv;

/// The attributes of a row along rows and columns; one without rows has numbers where the other has lists.
struct Steps {
  Size2 stride, padding, output_padding, dilation;
  std::int64_t groups;
};

Steps steps_of(const OpArgs& args, bool flat) {
  const bool transposed = args.attrs.has("output_padding");
  const auto pair = [&](const char* name, Size2 fallback, std::int64_t least) -> Size2 {
    if (!flat) return windows::pair_of(args, name, fallback, least);
    const std::int64_t value = args.attrs.integer(name);
    if (value < least || value > windows::most)
      throw ValueError(
          fmt::format("{}: {} is {}; it must be in [{}, {}]", args.op.name, name, value, least, windows::most));
    return {fallback.rows, value};
  };
  return {pair("stride", 1, 1), pair("padding", 0, 0), transposed ? pair("output_padding", 0, 0) : Size2{0},
          pair("dilation", 1, 1), args.attrs.integer("groups")};
}

Attrs product_attrs(const Steps& s) {
  Attrs attrs = windows::sliding_attrs({1, s.stride, s.padding, s.dilation});
  attrs.set("groups", s.groups);
  return attrs;
}

/// Throws ShapeError unless input i has this many axes.
void check_rank(const OpArgs& args, std::size_t i, int rank, const char* wanted) {
  if (args.in[i].rank() != rank)
    throw ShapeError(fmt::format("{}: {} must be {}, it is {}", args.op.name, args.op.inputs[i].name, wanted,
                                 args.in[i].shape().str()));
}

/// The shape with one row.
Shape with_row(const Shape& s, bool flat) { return flat ? Shape{s[0], s[1], 1, s[2]} : s; }
Tensor with_row(const Tensor& x, bool flat) { return flat ? unsqueeze(x, 2) : x; }

// --- conv1d ---

Conv line_conv(const OpArgs& args) {
  check_all_floating(args);
  check_rank(args, 0, 3, "[N, Cin, L]");
  check_rank(args, 1, 3, "[Cout, Cin / groups, k]");
  const Attrs attrs = product_attrs(steps_of(args, true));
  const Conv c =
      conv::conv_of(OpArgs{args.op, {}, attrs}, with_row(args.in[0].shape(), true), with_row(args.in[1].shape(), true));
  if (args.given(2)) check_shape(args, 2, {c.groups * c.outputs});
  return c;
}

Shape line_shape(const Shape& image) { return {image[0], image[1], image[3]}; }

std::vector<Tensor> line_body(const OpArgs& args) {
  const Steps s = steps_of(args, true);
  const Tensor bias = args.given(2) ? args.in[2] : Tensor{};
  const Tensor y =
      conv2d(with_row(args.in[0], true), with_row(args.in[1], true), bias, {s.stride, s.padding, s.dilation, s.groups});
  return {squeeze(y, 2)};
}

std::vector<Tensor> line_reference(const OpArgs& args) {
  const Steps s = steps_of(args, true);
  const Shape &x = args.in[0].shape(), &w = args.in[1].shape(), y = line_shape(line_conv(args).y_shape());
  Tensor out = reference_output(y);
  const std::int64_t outputs = w[0] / s.groups;
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const std::int64_t n = i / (y[1] * y[2]), o = i / y[2] % y[1], at = i % y[2];
    double total = args.given(2) ? values(args.in[2])[o] : 0.0;
    for (std::int64_t c = 0; c < w[1]; ++c)
      for (std::int64_t v = 0; v < w[2]; ++v) {
        const std::int64_t place = at * s.stride.columns - s.padding.columns + v * s.dilation.columns;
        if (place < 0 || place >= x[2]) continue;
        total += values(args.in[1])[(o * w[1] + c) * w[2] + v] *
                 values(args.in[0])[(n * x[1] + o / outputs * w[1] + c) * x[2] + place];
      }
    values(out)[i] = total;
  }
  return {out};
}

// --- transposes ---

/// The image that conv2d would take to x. Throws ShapeError where its sides cannot be counted or are negative.
Size2 image_of(const OpArgs& args, const Steps& s, const Shape& x, const Shape& w) {
  const auto side = [&](int axis, std::int64_t stride, std::int64_t padding, std::int64_t more, std::int64_t dilation) {
    if (more >= stride)
      throw ValueError(
          fmt::format("{}: output_padding is {}; it must be below the stride, {}", args.op.name, more, stride));
    __extension__ using Wide = __int128;
    const Wide extent = static_cast<Wide>(x[axis] - 1) * stride - 2 * static_cast<Wide>(padding) +
                        static_cast<Wide>(dilation) * (w[axis] - 1) + more + 1;
    if (x[axis] < 1 || extent < 1 || extent > windows::most)
      throw ShapeError(fmt::format("{}: no image of at least one pixel that can be counted: x is {}, weight is {}",
                                   args.op.name, args.in[0].shape().str(), args.in[1].shape().str()));
    return static_cast<std::int64_t>(extent);
  };
  return {side(2, s.stride.rows, s.padding.rows, s.output_padding.rows, s.dilation.rows),
          side(3, s.stride.columns, s.padding.columns, s.output_padding.columns, s.dilation.columns)};
}

template <bool flat> Conv transposed_conv(const OpArgs& args) {
  check_all_floating(args);
  check_rank(args, 0, flat ? 3 : 4, flat ? "[N, Cin, L]" : "[N, Cin, H, W]");
  check_rank(args, 1, flat ? 3 : 4, flat ? "[Cin, Cout / groups, k]" : "[Cin, Cout / groups, kh, kw]");
  const Steps s = steps_of(args, flat);
  const Shape x = with_row(args.in[0].shape(), flat), w = with_row(args.in[1].shape(), flat);
  if (s.groups < 1 || s.groups > windows::most)
    throw ValueError(fmt::format("{}: groups is {}; it must be in [1, {}]", args.op.name, s.groups, windows::most));
  if (x[1] != w[0])
    throw ShapeError(fmt::format("{}: x's channels are not the weight's: x is {}, weight is {}", args.op.name,
                                 args.in[0].shape().str(), args.in[1].shape().str()));
  const Size2 image = image_of(args, s, x, w);
  std::int64_t channels = 0;
  if (__builtin_mul_overflow(w[1], s.groups, &channels))
    throw ShapeError(fmt::format("{}: more output channels than can be counted", args.op.name));
  const Attrs attrs = product_attrs(s);
  const Conv c = conv::conv_of(OpArgs{args.op, {}, attrs}, {x[0], channels, image.rows, image.columns}, w);
  if (args.given(2)) check_shape(args, 2, {channels});
  return c;
}

template <bool flat> Shape transposed_shape(const OpArgs& args) {
  const Shape image = transposed_conv<flat>(args).x_shape();
  return flat ? line_shape(image) : image;
}

template <bool flat> std::vector<Tensor> transposed_body(const OpArgs& args) {
  const Shape image = transposed_conv<flat>(args).x_shape();
  Attrs attrs = product_attrs(steps_of(args, flat));
  attrs.set("input_size", std::vector<std::int64_t>{image[2], image[3]});
  Tensor y = call1(conv2d_input_backward_op, {with_row(args.in[1], flat), with_row(args.in[0], flat)}, attrs);
  if (flat) y = squeeze(y, 2);
  if (args.given(2)) y = add(y, reshape(args.in[2], flat ? Shape{image[1], 1} : Shape{image[1], 1, 1}));
  return {y};
}

/// Every element of x is added, times each element of the kernel, to where it goes.
template <bool flat> std::vector<Tensor> transposed_reference(const OpArgs& args) {
  const Steps s = steps_of(args, flat);
  const Shape x = with_row(args.in[0].shape(), flat), w = with_row(args.in[1].shape(), flat);
  const Shape y = transposed_conv<flat>(args).x_shape();
  Tensor out = reference_output(transposed_shape<flat>(args));
  if (args.given(2))
    for (std::int64_t i = 0; i < out.numel(); ++i) values(out)[i] = values(args.in[2])[i / (y[2] * y[3]) % y[1]];
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::int64_t n = i / (x[1] * x[2] * x[3]), c = i / (x[2] * x[3]) % x[1];
    const std::int64_t row = i / x[3] % x[2], column = i % x[3], first = c / (x[1] / s.groups) * w[1];
    for (std::int64_t k = 0; k < w[1] * w[2] * w[3]; ++k) {
      const std::int64_t o = k / (w[2] * w[3]), u = k / w[3] % w[2], v = k % w[3];
      const std::int64_t r = row * s.stride.rows - s.padding.rows + u * s.dilation.rows;
      const std::int64_t q = column * s.stride.columns - s.padding.columns + v * s.dilation.columns;
      if (r < 0 || r >= y[2] || q < 0 || q >= y[3]) continue;
      values(out)[((n * y[1] + first + o) * y[2] + r) * y[3] + q] +=
          values(args.in[0])[i] * values(args.in[1])[c * w[1] * w[2] * w[3] + k];
    }
  }
  return {out};
}

// --- samples, refusals, symmetries ---

Attrs line_attrs(std::int64_t stride, std::int64_t padding, std::int64_t dilation, std::int64_t groups,
                 std::int64_t output_padding = -1) {
  Attrs attrs = {{"stride", stride}, {"padding", padding}, {"dilation", dilation}, {"groups", groups}};
  if (output_padding >= 0) attrs.set("output_padding", output_padding);
  return attrs;
}

std::vector<Sample> line_samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, 2310 + tag); };
  return {{{x({2, 3, 5}, 1), x({4, 3, 3}, 2)}, line_attrs(1, 0, 1, 1), "no bias"},
          {{scattered(x({2, 2, 9}, 3)), scattered(x({3, 2, 2}, 4)), x({3}, 5)}, line_attrs(2, 1, 1, 1), "strided"},
          {{x({1, 2, 9}, 6), x({2, 2, 3}, 7), x({2}, 8)}, line_attrs(1, 3, 2, 1), "dilated"},
          {{x({2, 4, 6}, 9), x({6, 2, 3}, 10), x({6}, 11)}, line_attrs(1, 1, 1, 2), "two groups"},
          {{x({2, 3, 6}, 12), x({3, 1, 3}, 13), x({3}, 14)}, line_attrs(1, 1, 1, 3), "depthwise"},
          {{x({0, 2, 4}, 15), x({3, 2, 3}, 16), x({3}, 17)}, line_attrs(1, 1, 1, 1), "no lines"}};
}

std::vector<Sample> line_transposed_samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, 2330 + tag); };
  return {{{x({2, 3, 5}, 1), x({3, 4, 3}, 2)}, line_attrs(1, 0, 1, 1, 0), "no bias"},
          {{scattered(x({2, 2, 5}, 3)), scattered(x({2, 3, 4}, 4)), x({3}, 5)}, line_attrs(3, 1, 1, 1, 2), "strided"},
          {{x({1, 2, 6}, 6), x({2, 2, 3}, 7), x({2}, 8)}, line_attrs(1, 1, 2, 1, 0), "dilated"},
          {{x({2, 4, 3}, 9), x({4, 3, 3}, 10), x({6}, 11)}, line_attrs(2, 1, 1, 2, 1), "two groups"},
          {{x({0, 2, 4}, 12), x({2, 3, 3}, 13), x({3}, 14)}, line_attrs(1, 0, 1, 1, 0), "no lines"}};
}

std::vector<Sample> image_transposed_samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, 2350 + tag); };
  const auto attrs = [](Size2 stride, Size2 padding, Size2 more, Size2 dilation, std::int64_t groups) {
    Attrs all = windows::sliding_attrs({1, stride, padding, dilation});
    all.set("output_padding", windows::list(more));
    all.set("groups", groups);
    return all;
  };
  return {{{x({1, 3, 2, 3}, 1), x({3, 2, 2, 2}, 2)}, attrs(1, 0, 0, 1, 1), "no bias"},
          {{scattered(x({2, 2, 3, 4}, 3)), scattered(x({2, 3, 3, 2}, 4)), x({3}, 5)},
           attrs({2, 3}, {1, 0}, {1, 2}, 1, 1),
           "strided, longer at the end"},
          {{x({1, 2, 4, 3}, 6), x({2, 2, 2, 3}, 7), x({2}, 8)}, attrs(1, {0, 1}, 0, {2, 1}, 1), "dilated"},
          {{x({2, 4, 3, 3}, 9), x({4, 3, 3, 3}, 10), x({6}, 11)}, attrs(1, 1, 0, 1, 2), "two groups"},
          {{x({0, 2, 3, 3}, 12), x({2, 3, 2, 2}, 13), x({3}, 14)}, attrs(1, 0, 0, 1, 1), "no images"}};
}

std::vector<Refusal> line_refuses() {
  const Tensor x = Tensor::zeros({2, 4, 5}), w = Tensor::zeros({6, 4, 3});
  return {{{Tensor::zeros({4, 5}), w}, {}, "x must be [N, Cin, L], it is [4, 5]"},
          {{x, Tensor::zeros({6, 4})}, {}, "weight must be [Cout, Cin / groups, k], it is [6, 4]"},
          {{x, Tensor::zeros({6, 3, 3})}, {}, "x's channels are not groups times the weight's"},
          {{x, w}, {{"stride", std::int64_t{0}}}, "stride is 0; it must be in [1,"},
          {{x, w, Tensor::zeros({4})}, {}, "bias must be [6], it is [4]"},
          {{x, Tensor::zeros({6, 4, 7})}, {}, "the kernel is larger than the padded image"}};
}

template <bool flat> std::vector<Refusal> transposed_refuses() {
  const Tensor x = flat ? Tensor::zeros({2, 4, 5}) : Tensor::zeros({2, 4, 5, 5});
  const Tensor w = flat ? Tensor::zeros({4, 6, 3}) : Tensor::zeros({4, 6, 3, 3});
  const auto number = [](const char* name, std::int64_t value) {
    return flat ? Attrs{{name, value}} : Attrs{{name, std::vector<std::int64_t>{value}}};
  };
  return {{{Tensor::zeros({4, 5}), w}, {}, "x must be [N, Cin,"},
          {{x, Tensor::zeros({4, 6})}, {}, "weight must be [Cin, Cout / groups,"},
          {{flat ? Tensor::zeros({2, 3, 5}) : Tensor::zeros({2, 3, 5, 5}), w}, {}, "x's channels are not the weight's"},
          {{x, w}, number("stride", 0), "stride is 0"},
          {{x, w}, number("output_padding", 1), "output_padding is 1; it must be below the stride, 1"},
          {{x, w}, number("padding", 9), "no image of at least one pixel"},
          {{x, w}, {{"groups", std::int64_t{3}}}, "groups"},
          {{x, w, Tensor::zeros({4})}, {}, "bias must be [6], it is [4]"}};
}

/// Images; channels where there is one group. `in` and `out`: the weight's axes of the channels of x and y.
std::vector<Symmetry> channel_symmetries(const Sample& s, int in, int out) {
  std::vector<Symmetry> list;
  if (s.in[0].shape()[0] >= 2) list.push_back({"images", {in_leg(0, 0), out_leg(0, 0)}});
  if (s.attrs.integer("groups") != 1) return list;
  list.push_back({"input channels", {in_leg(0, 1), in_leg(1, in)}});
  list.push_back({"output channels", {in_leg(1, out), in_leg(2, 0), out_leg(0, 1)}});
  return list;
}

Work products(const Conv& c, const OpArgs& args, std::span<const TensorSpec> out) {
  const double each = static_cast<double>(c.images) * static_cast<double>(c.groups * c.inputs * c.outputs);
  return {2.0 * each * static_cast<double>(c.axes.windows() * c.axes.taps()), bytes_moved(args, out)};
}

constexpr AttrSpec groups_attr = attr_int("groups", 1, "parts of the channels that do not see each other");
constexpr AttrSpec stride_attr = attr_int("stride", 1, "steps between windows");
constexpr AttrSpec padding_attr = attr_int("padding", 0, "zeros at both ends; of a transpose, elements cut off there");
constexpr AttrSpec more_attr = attr_int("output_padding", 0, "elements added at the end, fewer than the stride");
constexpr AttrSpec dilation_attr = attr_int("dilation", 1, "steps between a window's elements");

} // namespace

constinit const OpDef conv1d_op = row({
    .name = "conv1d",
    .math = "y[n, o, i] = bias_o + sum over c, v of w[o, c, v] x[n, c, i s - p + v d]",
    .inputs = {{"x"}, {"weight"}, {"bias", true}},
    .attributes = {stride_attr, padding_attr, dilation_attr, groups_attr},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      return {{line_shape(line_conv(args).y_shape()), args.in[0].dtype()}};
    },
    .body = line_body,
    .reference = line_reference,
    .samples = line_samples,
    .refuses = line_refuses,
    .symmetries = [](const Sample& s) { return channel_symmetries(s, 1, 0); },
    .work = [](const OpArgs& args, std::span<const TensorSpec> out) { return products(line_conv(args), args, out); },
});

constinit const OpDef conv_transpose1d_op = row({
    .name = "conv_transpose1d",
    .math = "y[n, o, r] = bias_o + sum of w[c, o, v] x[n, c, i] over c and i s - p + v d = r",
    .inputs = {{"x"}, {"weight"}, {"bias", true}},
    .attributes = {stride_attr, padding_attr, more_attr, dilation_attr, groups_attr},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      return {{transposed_shape<true>(args), args.in[0].dtype()}};
    },
    .body = transposed_body<true>,
    .reference = transposed_reference<true>,
    .samples = line_transposed_samples,
    .refuses = transposed_refuses<true>,
    .symmetries = [](const Sample& s) { return channel_symmetries(s, 0, 1); },
    .work = [](const OpArgs& args,
               std::span<const TensorSpec> out) { return products(transposed_conv<true>(args), args, out); },
});

constinit const OpDef conv_transpose2d_op = row({
    .name = "conv_transpose2d",
    .math =
        "y[n, o, r, q] = bias_o + sum of w[c, o, u, v] x[n, c, i, j] over c and i s - p + u d = r, j s - p + v d = q",
    .inputs = {{"x"}, {"weight"}, {"bias", true}},
    .attributes = {attr_ints("stride", "steps between windows, one number or (rows, columns); empty: 1"),
                   attr_ints("padding", "pixels cut off at the border, likewise; empty: 0"),
                   attr_ints("output_padding", "rows and columns added at the end, fewer than the stride; empty: 0"),
                   attr_ints("dilation", "steps between a window's elements, likewise; empty: 1"), groups_attr},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      return {{transposed_shape<false>(args), args.in[0].dtype()}};
    },
    .body = transposed_body<false>,
    .reference = transposed_reference<false>,
    .samples = image_transposed_samples,
    .refuses = transposed_refuses<false>,
    .symmetries = [](const Sample& s) { return channel_symmetries(s, 0, 1); },
    .work = [](const OpArgs& args,
               std::span<const TensorSpec> out) { return products(transposed_conv<false>(args), args, out); },
});

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dOptions& o) {
  return call1(conv1d_op, {x, weight, bias}, line_attrs(o.stride, o.padding, o.dilation, o.groups));
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvTranspose1dOptions& o) {
  return call1(conv_transpose1d_op, {x, weight, bias},
               line_attrs(o.stride, o.padding, o.dilation, o.groups, o.output_padding));
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvTranspose2dOptions& o) {
  Attrs attrs = windows::sliding_attrs({1, o.stride, o.padding, o.dilation});
  attrs.set("output_padding", windows::list(o.output_padding));
  attrs.set("groups", o.groups);
  return call1(conv_transpose2d_op, {x, weight, bias}, attrs);
}

} // namespace eg
