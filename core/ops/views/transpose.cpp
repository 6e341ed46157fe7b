// transpose and permute: the axes in another order.

#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/views/movement.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

namespace eg {
namespace {

using AxisOrder = std::vector<int>;

/// y's axis i is x's axis order[i].
Tensor with_axes(const Tensor& x, const AxisOrder& order) {
  Shape shape;
  Shape strides;
  for (const int axis : order) {
    shape.push_back(x.shape()[axis]);
    strides.push_back(x.strides()[axis]);
  }
  return x.view_as(shape, strides, 0);
}

std::vector<TensorSpec> spec_with_axes(const Tensor& x, const AxisOrder& order) {
  Shape shape;
  for (const int axis : order) shape.push_back(x.shape()[axis]);
  return {{shape, x.dtype()}};
}

std::vector<Tensor> reference_with_axes(const OpArgs& a, const AxisOrder& order) {
  const Tensor& x = a.in[0];
  return {tabulate(spec_with_axes(x, order)[0].shape, x.dtype(), [&](const Index& y_index) {
    Index x_index(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) x_index[static_cast<std::size_t>(order[i])] = y_index[i];
    return read(x, x_index);
  })};
}

std::vector<Symmetry> symmetries_with_axes(const Sample& s, const AxisOrder& order) {
  std::vector<Symmetry> list;
  for (std::size_t i = 0; i < order.size(); ++i) add_axis_symmetry(list, s, order[i], static_cast<int>(i));
  return list;
}

AxisOrder swapped_order(int rank, std::int64_t axis_a, std::int64_t axis_b) {
  const int a = normalize_axis("transpose", axis_a, rank);
  const int b = normalize_axis("transpose", axis_b, rank);
  AxisOrder order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<std::size_t>(a)], order[static_cast<std::size_t>(b)]);
  return order;
}

AxisOrder swapped_order(const OpArgs& a) {
  return swapped_order(a.in[0].rank(), a.attrs.integer("axis_a"), a.attrs.integer("axis_b"));
}

AxisOrder given_order(int rank, const std::vector<std::int64_t>& axes) {
  if (axes.size() != static_cast<std::size_t>(rank))
    throw ShapeError(
        fmt::format("permute: {} axes are given for {} axes: [{}]", axes.size(), rank, fmt::join(axes, ", ")));
  AxisOrder order;
  for (const std::int64_t axis : axes) {
    const int place = normalize_axis("permute", axis, rank);
    if (std::find(order.begin(), order.end(), place) != order.end())
      throw ValueError(fmt::format("permute: axis {} occurs twice: [{}]", axis, fmt::join(axes, ", ")));
    order.push_back(place);
  }
  return order;
}

AxisOrder given_order(const OpArgs& a) { return given_order(a.in[0].rank(), a.attrs.integers("axes")); }

std::vector<Sample> transpose_samples(DType dtype) {
  return {{{sample_values({3, 5}, dtype, 1)}, {}, "a matrix"},
          {{sample_values({2, 3, 4, 5}, dtype, 2)},
           {{"axis_a", std::int64_t{1}}, {"axis_b", std::int64_t{2}}},
           "tokens and heads"},
          {{sample_transposed({3, 4}, dtype, 3)}, {}, "back again"},
          {{sample_values({1, 7}, dtype, 4)}, {}, "one row"},
          {{sample_values({0, 3}, dtype, 5)}, {}, "no elements"}};
}

std::vector<Refusal> transpose_refuses() {
  return {{{Tensor::zeros({4, 3})}, {{"axis_b", std::int64_t{2}}}, "axis 2 is outside [-2, 2)"},
          {{Tensor::zeros({4})}, {}, "axis -2 is outside [-1, 1)"}};
}

std::vector<Sample> permute_samples(DType dtype) {
  const auto to = [](std::vector<std::int64_t> axes) { return Attrs{{"axes", std::move(axes)}}; };
  return {{{sample_values({2, 3, 4}, dtype, 1)}, to({2, 0, 1}), "turned"},
          {{sample_transposed({2, 5, 3}, dtype, 2)}, to({0, 2, 1}), "of a transposed tensor"},
          {{sample_values({2, 1, 3, 2}, dtype, 3)}, to({0, 2, 1, -1}), "an axis of size 1"},
          {{sample_values({0, 2}, dtype, 4)}, to({1, 0}), "no elements"}};
}

std::vector<Refusal> permute_refuses() {
  const auto to = [](std::vector<std::int64_t> axes) { return Attrs{{"axes", std::move(axes)}}; };
  return {{{Tensor::zeros({4, 3})}, to({0}), "1 axes are given for 2 axes"},
          {{Tensor::zeros({4, 3})}, to({1, -1}), "axis -1 occurs twice: [1, -1]"},
          {{Tensor::zeros({4, 3})}, to({0, 5}), "axis 5 is outside [-2, 2)"}};
}

std::vector<std::int64_t> inverse_order(const AxisOrder& order) {
  std::vector<std::int64_t> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return inverse;
}

} // namespace

constinit const OpDef transpose_op = row({
    .name = "transpose",
    .math = "y[.., j, .., i, ..] = x[.., i, .., j, ..]",
    .inputs = {{"x"}},
    .attributes = {attr_int("axis_a", -2, "one axis"), attr_int("axis_b", -1, "the other")},
    .infer = [](const OpArgs& a) { return spec_with_axes(a.in[0], swapped_order(a)); },
    .view = [](const OpArgs& a) { return with_axes(a.in[0], swapped_order(a)); },
    .vjp = [](const VjpArgs& v) -> Gradients {
      return {transpose(v.grad[0], static_cast<int>(v.attrs.integer("axis_a")),
                        static_cast<int>(v.attrs.integer("axis_b")))};
    },
    .reference = [](const OpArgs& a) { return reference_with_axes(a, swapped_order(a)); },
    .samples = transpose_samples,
    .refuses = transpose_refuses,
    .symmetries =
        [](const Sample& s) {
          return symmetries_with_axes(
              s, swapped_order(s.in[0].rank(), integer_or(s.attrs, "axis_a", -2), integer_or(s.attrs, "axis_b", -1)));
        },
    .work = no_work,
});

constinit const OpDef permute_op = row({
    .name = "permute",
    .math = "axis i of y is axis axes[i] of x",
    .inputs = {{"x"}},
    .attributes = {required_attr("axes", AttrKind::integers, "every axis of x once, in the new order")},
    .infer = [](const OpArgs& a) { return spec_with_axes(a.in[0], given_order(a)); },
    .view = [](const OpArgs& a) { return with_axes(a.in[0], given_order(a)); },
    .vjp = [](const VjpArgs& v) -> Gradients { return {permute_axes(v.grad[0], inverse_order(given_order(v)))}; },
    .reference = [](const OpArgs& a) { return reference_with_axes(a, given_order(a)); },
    .samples = permute_samples,
    .refuses = permute_refuses,
    .symmetries =
        [](const Sample& s) { return symmetries_with_axes(s, given_order(s.in[0].rank(), s.attrs.integers("axes"))); },
    .work = no_work,
});

Tensor transpose(const Tensor& x, int axis_a, int axis_b) {
  return call1(transpose_op, {x}, {{"axis_a", std::int64_t{axis_a}}, {"axis_b", std::int64_t{axis_b}}});
}

Tensor permute_axes(const Tensor& x, const std::vector<std::int64_t>& axes) {
  return call1(permute_op, {x}, {{"axes", axes}});
}

} // namespace eg
