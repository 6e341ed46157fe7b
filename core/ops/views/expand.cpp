// expand, squeeze and unsqueeze: axes of extent 1 repeated, removed and added.

#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/views/movement.h"

#include <fmt/format.h>

namespace eg {
namespace {

Shape expanded(const OpArgs& a) {
  const Shape& from = a.in[0].shape();
  const Shape to = shape_attribute(a, "shape");
  bool fits = to.rank() >= from.rank();
  for (const std::int64_t extent : to) fits = fits && extent >= 0;
  for (int back = 1; fits && back <= from.rank(); ++back) fits = from[-back] == to[-back] || from[-back] == 1;
  if (!fits)
    throw ShapeError(fmt::format("expand: only axes of extent 1 can grow: x is {}, shape is {}", from.str(), to.str()));
  return to;
}

Tensor expand_view(const OpArgs& a) {
  const Shape to = expanded(a);
  const Tensor& x = a.in[0];
  Shape strides = to;
  for (int back = 1; back <= to.rank(); ++back) {
    const bool repeats = back > x.rank() || (x.shape()[-back] == 1 && to[-back] != 1);
    strides[-back] = repeats ? 0 : x.strides()[-back];
  }
  return x.view_as(to, strides, 0);
}

std::vector<Tensor> expand_reference(const OpArgs& a) {
  const Tensor& x = a.in[0];
  const Shape to = expanded(a);
  const auto added = static_cast<std::size_t>(to.rank() - x.rank());
  return {tabulate(to, x.dtype(), [&](const Index& i) {
    Index from(i.begin() + static_cast<std::ptrdiff_t>(added), i.end());
    for (int axis = 0; axis < x.rank(); ++axis)
      if (x.shape()[axis] == 1) from[static_cast<std::size_t>(axis)] = 0;
    return read(x, from);
  })};
}

Attrs to_shape(std::vector<std::int64_t> shape) { return {{"shape", std::move(shape)}}; }

std::vector<Sample> expand_samples(DType dtype) {
  return {{{sample_values({3, 1}, dtype, 1)}, to_shape({3, 4}), "a column repeats"},
          {{sample_values({5}, dtype, 2)}, to_shape({2, 3, 5}), "new axes in front"},
          {{sample_transposed({4, 1, 3}, dtype, 3)}, to_shape({4, 2, 3}), "of a transposed tensor"},
          {{sample_values({}, dtype, 4)}, to_shape({2, 2}), "a scalar"},
          {{sample_values({2, 1}, dtype, 5)}, to_shape({2, 0}), "to nothing"}};
}

std::vector<Refusal> expand_refuses() {
  return {{{Tensor::zeros({4, 3})}, to_shape({4, 6}), "only axes of extent 1 can grow: x is [4, 3], shape is [4, 6]"},
          {{Tensor::zeros({4, 3})}, to_shape({3}), "only axes of extent 1 can grow"},
          {{Tensor::zeros({4, 1})}, to_shape({4, -1}), "only axes of extent 1 can grow"}};
}

std::vector<Symmetry> expand_symmetries(const Sample& s) {
  const Shape& from = s.in[0].shape();
  const Shape to(s.attrs.integers("shape"));
  std::vector<Symmetry> list;
  for (int axis = 0; axis < to.rank(); ++axis) {
    if (to[axis] < 2) continue;
    const int in_axis = axis - (to.rank() - from.rank());
    if (in_axis >= 0 && from[in_axis] == to[axis])
      add_axis_symmetry(list, s, in_axis, axis);
    else
      list.push_back({fmt::format("repeated axis {}", axis), {out_leg(0, axis)}});
  }
  return list;
}

int squeezed_axis(const OpArgs& a) {
  const Shape& shape = a.in[0].shape();
  const int axis = normalize_axis("squeeze", a.attrs.integer("axis"), shape.rank());
  if (shape[axis] != 1)
    throw ShapeError(fmt::format("squeeze: axis {} has extent {}, not 1: x is {}", axis, shape[axis], shape.str()));
  return axis;
}

int added_axis(const OpArgs& a) { return normalize_axis("unsqueeze", a.attrs.integer("axis"), a.in[0].rank() + 1); }

Shape without(Shape list, int axis) {
  list.erase(axis);
  return list;
}

Attrs at_axis(std::int64_t axis) { return {{"axis", axis}}; }

/// The reference of both: the elements keep their row-major order.
std::vector<Tensor> same_order(const OpArgs& a) {
  std::vector<double> flat;
  for_each_index(a.in[0].shape(), [&](const Index& i) { flat.push_back(read(a.in[0], i)); });
  std::size_t next = 0;
  return {tabulate(a.op.infer(a)[0].shape, a.in[0].dtype(), [&](const Index&) { return flat[next++]; })};
}

std::vector<Sample> squeeze_samples(DType dtype) {
  return {{{sample_values({3, 1, 4}, dtype, 1)}, at_axis(1), "in the middle"},
          {{sample_transposed({5, 1}, dtype, 2)}, at_axis(-1), "the last axis, transposed"},
          {{sample_values({1}, dtype, 3)}, at_axis(0), "to a scalar"},
          {{sample_values({1, 0}, dtype, 4)}, at_axis(0), "no elements"}};
}

std::vector<Refusal> squeeze_refuses() {
  return {{{Tensor::zeros({4, 3})}, at_axis(1), "axis 1 has extent 3, not 1: x is [4, 3]"},
          {{Tensor::zeros({4, 1})}, at_axis(2), "axis 2 is outside [-2, 2)"}};
}

std::vector<Symmetry> squeeze_symmetries(const Sample& s) {
  const int rank = s.in[0].rank();
  const int axis = normalize_axis("squeeze", s.attrs.integer("axis"), rank);
  std::vector<Symmetry> list;
  for (int i = 0; i < rank; ++i)
    if (i != axis) add_axis_symmetry(list, s, i, i < axis ? i : i - 1);
  return list;
}

std::vector<Sample> unsqueeze_samples(DType dtype) {
  return {{{sample_values({3, 4}, dtype, 1)}, at_axis(1), "in the middle"},
          {{sample_transposed({5, 2}, dtype, 2)}, at_axis(-1), "behind a transposed matrix"},
          {{sample_values({}, dtype, 3)}, at_axis(0), "a scalar"},
          {{sample_values({0, 2}, dtype, 4)}, at_axis(0), "no elements"}};
}

std::vector<Refusal> unsqueeze_refuses() {
  return {{{Tensor::zeros({4, 3})}, at_axis(3), "axis 3 is outside [-3, 3)"},
          {{Tensor::zeros({1, 1, 1, 1, 1, 1, 1, 2})}, at_axis(0), "more than 8 axes: [1, 1, 1, 1, 1, 1, 1, 2] has 8"}};
}

std::vector<Symmetry> unsqueeze_symmetries(const Sample& s) {
  const int rank = s.in[0].rank();
  const int axis = normalize_axis("unsqueeze", s.attrs.integer("axis"), rank + 1);
  std::vector<Symmetry> list;
  for (int i = 0; i < rank; ++i) add_axis_symmetry(list, s, i, i < axis ? i : i + 1);
  return list;
}

} // namespace

constinit const OpDef expand_op = row({
    .name = "expand",
    .math = "y[.., i, ..] = x[.., 0, ..] along axes of extent 1; new axes come in front",
    .inputs = {{"x"}},
    .attributes = {required_attr("shape", AttrKind::integers, "extents of y")},
    .infer = [](const OpArgs& a) -> std::vector<TensorSpec> {
      return {{expanded(a), a.in[0].dtype()}};
    },
    .view = expand_view,
    // The engine sums a gradient of the repeated shape back to x's shape.
    .vjp = [](const VjpArgs& v) -> Gradients { return {v.grad[0]}; },
    .reference = expand_reference,
    .samples = expand_samples,
    .refuses = expand_refuses,
    .symmetries = expand_symmetries,
    .least_extents = {{"axis", 1, "the attribute gives the extents, and only axes of extent 1 grow"}},
    .work = no_work,
});

constinit const OpDef squeeze_op = row({
    .name = "squeeze",
    .math = "y = x without one axis of extent 1",
    .inputs = {{"x"}},
    .attributes = {required_attr("axis", AttrKind::integer, "the axis that goes")},
    .infer = [](const OpArgs& a) -> std::vector<TensorSpec> {
      return {{without(a.in[0].shape(), squeezed_axis(a)), a.in[0].dtype()}};
    },
    .view =
        [](const OpArgs& a) {
          const int axis = squeezed_axis(a);
          return a.in[0].view_as(without(a.in[0].shape(), axis), without(a.in[0].strides(), axis), 0);
        },
    .vjp = [](const VjpArgs& v) -> Gradients { return {unsqueeze(v.grad[0], squeezed_axis(v))}; },
    .reference = same_order,
    .samples = squeeze_samples,
    .refuses = squeeze_refuses,
    .symmetries = squeeze_symmetries,
    .work = no_work,
});

constinit const OpDef unsqueeze_op = row({
    .name = "unsqueeze",
    .math = "y = x with a new axis of extent 1",
    .inputs = {{"x"}},
    .attributes = {required_attr("axis", AttrKind::integer, "place of the new axis in y")},
    .infer = [](const OpArgs& a) -> std::vector<TensorSpec> {
      return {{with_new_axis(a, a.in[0].shape(), added_axis(a), 1), a.in[0].dtype()}};
    },
    .view =
        [](const OpArgs& a) {
          const int axis = added_axis(a);
          const Shape shape = with_new_axis(a, a.in[0].shape(), axis, 1); // refuses a ninth axis
          Shape strides = a.in[0].strides();
          strides.insert(axis, 0);
          return a.in[0].view_as(shape, strides, 0);
        },
    .vjp = [](const VjpArgs& v) -> Gradients { return {squeeze(v.grad[0], added_axis(v))}; },
    .reference = same_order,
    .samples = unsqueeze_samples,
    .refuses = unsqueeze_refuses,
    .symmetries = unsqueeze_symmetries,
    .work = no_work,
});

Tensor expand(const Tensor& x, const Shape& shape) { return call1(expand_op, {x}, {{"shape", list_of(shape)}}); }
Tensor squeeze(const Tensor& x, int axis) { return call1(squeeze_op, {x}, at_axis(axis)); }
Tensor unsqueeze(const Tensor& x, int axis) { return call1(unsqueeze_op, {x}, at_axis(axis)); }

} // namespace eg
