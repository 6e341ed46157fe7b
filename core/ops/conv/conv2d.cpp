// conv2d and its two adjoints. With T(x, w, g) = <g, x * w>, y = dT/dg, dx = dT/dx and dw = dT/dw: each row's rule is
// made of the other two, so derivatives of every order are these three rows.

#include "core/base/function_ref.h"
#include "core/call.h"
#include "core/ops.h"
#include "core/ops/conv/cases.h"
#include "core/ops/conv/exact.h"
#include "core/ops/conv/kernels.h"
#include "core/ops/conv/on_device.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"

#include <fmt/format.h>

namespace eg {
namespace {

using conv::Conv;
using windows::Axis;

Conv forward_conv(const OpArgs& args) {
  check_all_floating(args);
  const Conv c = conv::conv_of(args, args.in[0].shape(), args.in[1].shape());
  if (args.given(2)) check_shape(args, 2, {c.groups * c.outputs});
  return c;
}

/// Inputs weight, g; the size of x from the attributes.
Conv input_conv(const OpArgs& args) {
  check_all_floating(args);
  const Shape& w = args.in[0].shape();
  const Shape& g = args.in[1].shape();
  if (g.rank() != 4 || w.rank() != 4)
    throw ShapeError(
        fmt::format("{}: weight and g must have 4 axes: weight is {}, g is {}", args.op.name, w.str(), g.str()));
  if (args.attrs.integers("input_size").empty())
    throw ValueError(fmt::format("{}: input_size must not be empty", args.op.name));
  const Size2 image = windows::pair_of(args, "input_size", 0, 0);
  std::int64_t channels = 0;
  if (__builtin_mul_overflow(w[1], args.attrs.integer("groups"), &channels) || channels < 0)
    throw ValueError(
        fmt::format("{}: groups is {}; weight is {}", args.op.name, args.attrs.integer("groups"), w.str()));
  const Conv c = conv::conv_of(args, {g[0], channels, image.rows, image.columns}, w);
  check_shape(args, 1, c.y_shape());
  return c;
}

/// Inputs x, g; the kernel's size from the attributes.
Conv weight_conv(const OpArgs& args) {
  check_all_floating(args);
  const Shape& x = args.in[0].shape();
  const Shape& g = args.in[1].shape();
  if (g.rank() != 4 || x.rank() != 4)
    throw ShapeError(fmt::format("{}: x and g must have 4 axes: x is {}, g is {}", args.op.name, x.str(), g.str()));
  const Size2 kernel = windows::frame_of(args).kernel;
  const std::int64_t groups = std::max<std::int64_t>(1, args.attrs.integer("groups"));
  const Conv c = conv::conv_of(args, x, {g[1], x[1] / groups, kernel.rows, kernel.columns});
  check_shape(args, 1, c.y_shape());
  return c;
}

/// A kernel of tensors, exact or on a device: outputs without elements need no work.
template <Conv (*extents)(const OpArgs&), void (*kernel)(const Conv&, const OpArgs&, Tensor&)>
void tensor_kernel(const OpArgs& args, std::span<Tensor> out) {
  if (out[0].numel() > 0) kernel(extents(args), args, out[0]);
}

template <auto single, auto twice> void forward_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Conv c = forward_conv(args);
  if (out[0].numel() == 0) return;
  const Tensor x = packed(args.in[0]);
  const Tensor w = packed(args.in[1]);
  const Tensor bias = args.given(2) ? packed(args.in[2]) : Tensor{};
  const auto run = [&]<class T>(void (*kernel)(const Conv&, const T*, const T*, const T*, T*)) {
    kernel(c, x.data<T>(), w.data<T>(), bias.defined() ? bias.data<T>() : nullptr, out[0].mutable_data<T>("conv2d"));
  };
  if (x.dtype() == DType::f32)
    run.template operator()<float>(single);
  else
    run.template operator()<double>(twice);
}

template <Conv (*extents)(const OpArgs&), auto single, auto twice>
void adjoint_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Conv c = extents(args);
  if (out[0].numel() == 0) return;
  const Tensor a = packed(args.in[0]);
  const Tensor g = packed(args.in[1]);
  if (a.dtype() == DType::f32)
    single(c, a.data<float>(), g.data<float>(), out[0].mutable_data<float>("conv2d"));
  else
    twice(c, a.data<double>(), g.data<double>(), out[0].mutable_data<double>("conv2d"));
}

Attrs product_attrs(const VjpArgs& args) {
  Attrs attrs = windows::sliding_attrs(windows::frame_of(args, 1));
  attrs.set("groups", args.attrs.integer("groups"));
  return attrs;
}

Tensor product(const VjpArgs& args, const Tensor& x, const Tensor& w) {
  return call1(conv2d_op, {x, w, {}}, product_attrs(args));
}
Tensor input_gradient(const VjpArgs& args, const Tensor& w, const Tensor& g, const Shape& x) {
  Attrs attrs = product_attrs(args);
  attrs.set("input_size", std::vector<std::int64_t>{x[2], x[3]});
  return call1(conv2d_input_backward_op, {w, g}, attrs);
}
Tensor weight_gradient(const VjpArgs& args, const Tensor& x, const Tensor& g, const Shape& w) {
  Attrs attrs = product_attrs(args);
  attrs.set("kernel_size", std::vector<std::int64_t>{w[2], w[3]});
  return call1(conv2d_weight_backward_op, {x, g}, attrs);
}

Gradients forward_rule(const VjpArgs& args) {
  const Tensor& g = args.grad[0];
  Gradients gradients(args.in.size());
  if (args.wants(0)) gradients[0] = input_gradient(args, args.in[1], g, args.in[0].shape());
  if (args.wants(1)) gradients[1] = weight_gradient(args, args.in[0], g, args.in[1].shape());
  if (args.given(2) && args.wants(2)) gradients[2] = sum(g, {0, 2, 3});
  return gradients;
}

Gradients input_rule(const VjpArgs& args) { // the cotangent stands for an x
  const Tensor& x = args.grad[0];
  Gradients gradients(2);
  if (args.wants(0)) gradients[0] = weight_gradient(args, x, args.in[1], args.in[0].shape());
  if (args.wants(1)) gradients[1] = product(args, x, args.in[0]);
  return gradients;
}

Gradients weight_rule(const VjpArgs& args) { // the cotangent stands for a weight
  const Tensor& w = args.grad[0];
  Gradients gradients(2);
  if (args.wants(0)) gradients[0] = input_gradient(args, w, args.in[1], args.in[0].shape());
  if (args.wants(1)) gradients[1] = product(args, args.in[0], w);
  return gradients;
}

/// visit(element of x, of w, of y) for every product in T(x, w, g).
void each_product(const Conv& c, FunctionRef<void(std::int64_t, std::int64_t, std::int64_t)> visit) {
  const Axis& r = c.axes.rows;
  const Axis& q = c.axes.columns;
  for (std::int64_t n = 0; n < c.images; ++n)
    for (std::int64_t o = 0; o < c.groups * c.outputs; ++o)
      for (std::int64_t i = 0; i < r.count; ++i)
        for (std::int64_t j = 0; j < q.count; ++j)
          for (std::int64_t k = 0; k < c.inputs; ++k)
            for (std::int64_t u = 0; u < r.kernel; ++u)
              for (std::int64_t v = 0; v < q.kernel; ++v) {
                const std::int64_t row = i * r.stride - r.padding + u * r.dilation;
                const std::int64_t column = j * q.stride - q.padding + v * q.dilation;
                if (row < 0 || row >= r.extent || column < 0 || column >= q.extent) continue;
                const std::int64_t channel = o / c.outputs * c.inputs + k;
                visit(((n * c.groups * c.inputs + channel) * r.extent + row) * q.extent + column,
                      ((o * c.inputs + k) * r.kernel + u) * q.kernel + v,
                      ((n * c.groups * c.outputs + o) * r.count + i) * q.count + j);
              }
}

std::vector<Tensor> forward_reference(const OpArgs& args) {
  const Conv c = forward_conv(args);
  Tensor y = reference_output(c.y_shape());
  if (args.given(2))
    for (std::int64_t i = 0; i < y.numel(); ++i)
      values(y)[i] = values(args.in[2])[i / c.axes.windows() % (c.groups * c.outputs)];
  each_product(c, [&](std::int64_t at_x, std::int64_t at_w, std::int64_t at_y) {
    values(y)[at_y] += values(args.in[0])[at_x] * values(args.in[1])[at_w];
  });
  return {y};
}

std::vector<Tensor> input_reference(const OpArgs& args) {
  const Conv c = input_conv(args);
  Tensor dx = reference_output(c.x_shape());
  each_product(c, [&](std::int64_t at_x, std::int64_t at_w, std::int64_t at_y) {
    values(dx)[at_x] += values(args.in[0])[at_w] * values(args.in[1])[at_y];
  });
  return {dx};
}

std::vector<Tensor> weight_reference(const OpArgs& args) {
  const Conv c = weight_conv(args);
  Tensor dw = reference_output(c.weight_shape());
  each_product(c, [&](std::int64_t at_x, std::int64_t at_w, std::int64_t at_y) {
    values(dw)[at_w] += values(args.in[0])[at_x] * values(args.in[1])[at_y];
  });
  return {dw};
}

/// Legs (input x, w, g or output) where the row has them, -1 where it does not: the three ops differ in which one is
/// the output.
struct Roles {
  int x, w, y; // input index; -1: this one is the output
};
std::vector<Symmetry> roles_symmetries(const Sample& s, Roles roles, int bias) {
  const auto leg = [](int role, int axis) { return role < 0 ? out_leg(0, axis) : in_leg(role, axis); };
  std::vector<Symmetry> all{{"images", {leg(roles.x, 0), leg(roles.y, 0)}}};
  if (roles.w >= 0) { // kernels of one row or column, without border or steps: each pixel sees itself alone
    const auto is_all = [&](const char* name, std::size_t side, std::int64_t wanted) {
      const auto& list = s.attrs.integers(name);
      return list.empty() || list[list.size() == 1 ? 0 : side] == wanted;
    };
    for (int side = 0; side < 2; ++side)
      if (s.in[static_cast<std::size_t>(roles.w)].size(2 + side) == 1 &&
          is_all("stride", static_cast<std::size_t>(side), 1) && is_all("padding", static_cast<std::size_t>(side), 0))
        all.push_back({side == 0 ? "rows" : "columns", {leg(roles.x, 2 + side), leg(roles.y, 2 + side)}});
  }
  const std::int64_t groups = s.attrs.integer("groups");
  std::vector<Leg> outputs{leg(roles.w, 0), leg(roles.y, 1)};
  if (bias >= 0) outputs.push_back(in_leg(bias, 0));
  if (groups == 1) {
    all.push_back({"output channels", outputs});
    all.push_back({"input channels", {leg(roles.x, 1), leg(roles.w, 1)}});
    return all;
  }
  const auto channels = [&](int role, int axis) {
    return role < 0 ? groups : s.in[static_cast<std::size_t>(role)].size(axis);
  };
  if (channels(roles.x, 1) == groups && channels(roles.y, 1) == groups && channels(roles.w, 0) == groups) {
    outputs.push_back(leg(roles.x, 1));
    all.push_back({"channels of a depthwise one", outputs});
  }
  return all;
}

Work conv_work(const Conv& c, const OpArgs& args, std::span<const TensorSpec> out) {
  return {c.flops(), bytes_moved(args, out)};
}

constexpr AttrSpec stride_attr = attr_ints("stride", "steps between windows, one number or (rows, columns); empty: 1");
constexpr AttrSpec padding_attr = attr_ints("padding", "zeros around the image, likewise; empty: 0");
constexpr AttrSpec dilation_attr = attr_ints("dilation", "steps between a window's elements, likewise; empty: 1");
constexpr AttrSpec groups_attr = attr_int("groups", 1, "parts of the channels that do not see each other");

} // namespace

constinit const OpDef conv2d_op = row({
    .name = "conv2d",
    .math = "y[n, o, i, j] = bias_o + sum over c, u, v of w[o, c, u, v] x[n, c, i s - p + u d, j s - p + v d]",
    .inputs = {{"x"}, {"weight"}, {"bias", true}},
    .attributes = {stride_attr, padding_attr, dilation_attr, groups_attr},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      return {{forward_conv(args).y_shape(), args.in[0].dtype()}};
    },
    .cpu = forward_kernel<conv::forward<float>, conv::forward<double>>,
    .exact = tensor_kernel<forward_conv, conv::exact_forward>,
    .cuda = tensor_kernel<forward_conv, conv::device_forward>,
    .saves = saves::in(0) | saves::in(1),
    .vjp = forward_rule,
    .reference = forward_reference,
    .samples = conv::forward_samples,
    .refuses = conv::forward_refuses,
    .symmetries =
        [](const Sample& s) {
          return roles_symmetries(s, {0, 1, -1}, 2);
        },
    .least_extents = {{"rows", 1, "the kernel must fit"},
                      {"columns", 1, "the kernel must fit"},
                      {"channels of a depthwise one", 2, "the attribute gives the number of groups"}},
    .work = [](const OpArgs& args,
               std::span<const TensorSpec> out) { return conv_work(forward_conv(args), args, out); },
});

constinit const OpDef conv2d_input_backward_op = row({
    .name = "conv2d_input_backward",
    .math = "dx[n, c, r, q] = sum of w[o, c, u, v] g[n, o, i, j] over o and i s - p + u d = r, j s - p + v d = q",
    .inputs = {{"weight"}, {"g"}},
    .outputs = {"dx"},
    .attributes = {required_attr("input_size", AttrKind::integers, "rows and columns of x"), stride_attr, padding_attr,
                   dilation_attr, groups_attr},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      return {{input_conv(args).x_shape(), args.in[0].dtype()}};
    },
    .cpu = adjoint_kernel<input_conv, conv::input_backward<float>, conv::input_backward<double>>,
    .exact = tensor_kernel<input_conv, conv::exact_input_backward>,
    .cuda = tensor_kernel<input_conv, conv::device_input_backward>,
    .saves = saves::in(0) | saves::in(1),
    .vjp = input_rule,
    .reference = input_reference,
    .samples = conv::input_samples,
    .refuses = conv::input_refuses,
    .symmetries =
        [](const Sample& s) {
          return roles_symmetries(s, {-1, 0, 1}, -1);
        },
    .least_extents = {{"rows", 2, "g must have the extents of the call"},
                      {"columns", 2, "g must have the extents of the call"},
                      {"channels of a depthwise one", 2, "the attribute gives the number of groups"}},
    .work = [](const OpArgs& args, std::span<const TensorSpec> out) { return conv_work(input_conv(args), args, out); },
});

constinit const OpDef conv2d_weight_backward_op = row({
    .name = "conv2d_weight_backward",
    .math = "dw[o, c, u, v] = sum over n, i, j of g[n, o, i, j] x[n, c, i s - p + u d, j s - p + v d]",
    .inputs = {{"x"}, {"g"}},
    .outputs = {"dw"},
    .attributes = {required_attr("kernel_size", AttrKind::integers, "rows and columns of the kernel"), stride_attr,
                   padding_attr, dilation_attr, groups_attr},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      return {{weight_conv(args).weight_shape(), args.in[0].dtype()}};
    },
    .cpu = adjoint_kernel<weight_conv, conv::weight_backward<float>, conv::weight_backward<double>>,
    .exact = tensor_kernel<weight_conv, conv::exact_weight_backward>,
    .cuda = tensor_kernel<weight_conv, conv::device_weight_backward>,
    .saves = saves::in(0) | saves::in(1),
    .vjp = weight_rule,
    .reference = weight_reference,
    .samples = conv::weight_samples,
    .refuses = conv::weight_refuses,
    .symmetries =
        [](const Sample& s) {
          return roles_symmetries(s, {0, -1, 1}, -1);
        },
    .least_extents = {{"channels of a depthwise one", 2, "the attribute gives the number of groups"}},
    .work = [](const OpArgs& args, std::span<const TensorSpec> out) { return conv_work(weight_conv(args), args, out); },
});

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& o) {
  Attrs attrs = windows::sliding_attrs({1, o.stride, o.padding, o.dilation});
  attrs.set("groups", o.groups);
  return call1(conv2d_op, {x, weight, bias}, attrs);
}

} // namespace eg
