// slice, and its adjoint, which puts the slice back among zeros.

#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/views/movement.h"
#include "core/ops/views/strided_copy.h"

#include <fmt/format.h>

namespace eg {
namespace {

struct Range {
  int axis;
  std::int64_t start;
  std::int64_t step;
  std::int64_t count;
};

std::int64_t position(std::int64_t given, const char* what, std::int64_t extent) {
  if (given < -extent || given > extent)
    throw IndexError(fmt::format("slice: {} {} is outside [{}, {}]", what, given, -extent, extent));
  return given < 0 ? given + extent : given;
}

Range range_of(const OpArgs& a) {
  const Shape& shape = a.in[0].shape();
  const int axis = normalize_axis("slice", a.attrs.integer("axis"), shape.rank());
  const std::int64_t step = a.attrs.integer("step");
  if (step < 1) throw ValueError(fmt::format("slice: step is {}; it must be 1 or more", step));
  const std::int64_t start = position(a.attrs.integer("start"), "start", shape[axis]);
  const std::int64_t stop = position(a.attrs.integer("stop"), "stop", shape[axis]);
  if (start > stop)
    throw IndexError(fmt::format("slice: start {} is behind stop {} on axis {} of {}", a.attrs.integer("start"),
                                 a.attrs.integer("stop"), axis, shape.str()));
  const std::int64_t length = stop - start;
  return {axis, start, step, length / step + (length % step != 0 ? 1 : 0)};
}

Tensor slice_view(const OpArgs& a) {
  const Range r = range_of(a);
  const Tensor& x = a.in[0];
  Shape strides = x.strides();
  const std::int64_t offset = r.count > 0 ? r.start * strides[r.axis] : 0;
  if (r.count > 1) strides[r.axis] *= r.step;
  return x.view_as(with_extent(x.shape(), r.axis, r.count), strides, offset);
}

std::vector<Tensor> slice_reference(const OpArgs& a) {
  const Range r = range_of(a);
  const Tensor& x = a.in[0];
  return {tabulate(with_extent(x.shape(), r.axis, r.count), x.dtype(), [&](Index i) {
    auto& along = i[static_cast<std::size_t>(r.axis)];
    along = r.start + along * r.step;
    return read(x, i);
  })};
}

Attrs slice_attrs(std::int64_t axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1) {
  return {{"axis", axis}, {"start", start}, {"stop", stop}, {"step", step}};
}

std::vector<Sample> slice_samples(DType dtype) {
  return {{{sample_values({4, 7}, dtype, 1)}, slice_attrs(1, 2, 6), "columns"},
          {{sample_values({3, 9, 2}, dtype, 2)}, slice_attrs(-2, 1, -1, 3), "every third"},
          {{sample_transposed({5, 4}, dtype, 3)}, slice_attrs(0, -3, 5, 2), "of a transposed matrix, from the end"},
          {{sample_values({1, 5}, dtype, 4)}, slice_attrs(0, 0, 1), "an axis of size 1"},
          {{sample_values({3, 4}, dtype, 5)}, slice_attrs(1, 2, 2), "nothing is left"}};
}

std::vector<Refusal> slice_refuses() {
  const Tensor x = Tensor::zeros({4, 3});
  return {{{x}, slice_attrs(2, 0, 1), "axis 2 is outside [-2, 2)"},
          {{x}, slice_attrs(0, 5, 6), "start 5 is outside [-4, 4]"},
          {{x}, slice_attrs(0, 0, 9), "stop 9 is outside [-4, 4]"},
          {{x}, slice_attrs(0, 3, 1), "start 3 is behind stop 1"},
          {{x}, slice_attrs(0, 0, 4, -1), "step is -1; it must be 1 or more"}};
}

std::vector<Symmetry> other_axes(const Sample& s) {
  const int rank = s.in[0].rank();
  const int axis = normalize_axis("slice", s.attrs.integer("axis"), rank);
  std::vector<Symmetry> list;
  for (int i = 0; i < rank; ++i)
    if (i != axis) add_axis_symmetry(list, s, i, i);
  return list;
}

Gradients slice_vjp(const VjpArgs& v) {
  const Range r = range_of(v);
  return {call1(
      slice_backward_op, {v.grad[0]},
      {{"axis", std::int64_t{r.axis}}, {"start", r.start}, {"step", r.step}, {"extent", v.in[0].shape()[r.axis]}})};
}

struct Embedding {
  int axis;
  std::int64_t start;
  std::int64_t step;
  std::int64_t extent;
};

Embedding embedding_of(const OpArgs& a) {
  const Shape& shape = a.in[0].shape();
  const Embedding e = {normalize_axis("slice_backward", a.attrs.integer("axis"), shape.rank()),
                       a.attrs.integer("start"), a.attrs.integer("step"), a.attrs.integer("extent")};
  if (e.step < 1) throw ValueError(fmt::format("slice_backward: step is {}; it must be 1 or more", e.step));
  if (e.start < 0 || e.extent < 0) throw ValueError("slice_backward: start and extent must not be negative");
  const std::int64_t count = shape[e.axis];
  std::int64_t last = 0;
  if (__builtin_mul_overflow(count - 1, e.step, &last) || __builtin_add_overflow(last, e.start, &last) ||
      (count > 0 && last >= e.extent))
    throw ShapeError(fmt::format("slice_backward: {} elements from {} in steps of {} do not fit an axis of {}", count,
                                 e.start, e.step, e.extent));
  return e;
}

void slice_backward_kernel(const OpArgs& a, std::span<Tensor> out) {
  const Embedding e = embedding_of(a);
  alignas(8) const std::byte zero[8] = {};
  embed_along(out[0], a.in[0], e.axis, std::min(e.start, e.extent), e.step, zero);
}

std::vector<Tensor> slice_backward_reference(const OpArgs& a) {
  const Embedding e = embedding_of(a);
  const Tensor& g = a.in[0];
  return {tabulate(with_extent(g.shape(), e.axis, e.extent), g.dtype(), [&](Index i) {
    auto& along = i[static_cast<std::size_t>(e.axis)];
    along -= e.start;
    if (along < 0 || along % e.step != 0 || along / e.step >= g.shape()[e.axis]) return 0.0;
    along /= e.step;
    return read(g, i);
  })};
}

Attrs embedding_attrs(std::int64_t axis, std::int64_t start, std::int64_t step, std::int64_t extent) {
  return {{"axis", axis}, {"start", start}, {"step", step}, {"extent", extent}};
}

std::vector<Sample> slice_backward_samples(DType dtype) {
  return {{{sample_values({4, 3}, dtype, 1)}, embedding_attrs(1, 2, 1, 7), "columns"},
          {{sample_values({2, 3, 5}, dtype, 2)}, embedding_attrs(-2, 1, 3, 9), "every third"},
          {{sample_transposed({2, 5}, dtype, 3)}, embedding_attrs(0, 0, 2, 3), "of a transposed matrix"},
          {{sample_values({1, 5}, dtype, 4)}, embedding_attrs(0, 0, 1, 1), "an axis of size 1"},
          {{sample_values({3, 0}, dtype, 5)}, embedding_attrs(1, 0, 1, 2), "all zeros"}};
}

std::vector<Refusal> slice_backward_refuses() {
  return {{{Tensor::zeros({4, 3})}, embedding_attrs(1, 2, 2, 6), "3 elements from 2 in steps of 2 do not fit"},
          {{Tensor::zeros({4, 3})}, embedding_attrs(1, 0, 0, 6), "step is 0"},
          {{Tensor::zeros({4, 3})}, embedding_attrs(1, -1, 1, 6), "must not be negative"}};
}

Gradients slice_backward_vjp(const VjpArgs& v) {
  const Embedding e = embedding_of(v);
  const std::int64_t count = v.in[0].shape()[e.axis];
  if (count == 0) return {Tensor()};
  return {slice(v.grad[0], e.axis, e.start, e.start + (count - 1) * e.step + 1, e.step)};
}

} // namespace

constinit const OpDef slice_op = row({
    .name = "slice",
    .math = "y[.., i, ..] = x[.., start + i step, ..] while start + i step < stop",
    .inputs = {{"x"}},
    .attributes = {attr_int("axis", 0, "the axis that is cut"),
                   attr_int("start", 0, "first index; negative: from the end"),
                   required_attr("stop", AttrKind::integer, "first index left out; negative: from the end"),
                   attr_int("step", 1, "distance of the indices taken, 1 or more")},
    .infer = [](const OpArgs& a) -> std::vector<TensorSpec> {
      const Range r = range_of(a);
      return {{with_extent(a.in[0].shape(), r.axis, r.count), a.in[0].dtype()}};
    },
    .view = slice_view,
    .vjp = slice_vjp,
    .reference = slice_reference,
    .samples = slice_samples,
    .refuses = slice_refuses,
    .symmetries = other_axes,
    .work = no_work,
});

constinit const OpDef slice_backward_op = row({
    .name = "slice_backward",
    .math = "y[.., start + i step, ..] = grad[.., i, ..], zero elsewhere",
    .inputs = {{"grad"}},
    .attributes = {attr_int("axis", 0, "the axis that was cut"), attr_int("start", 0, "first index"),
                   attr_int("step", 1, "distance of the indices"),
                   required_attr("extent", AttrKind::integer, "extent of the axis before it was cut")},
    .infer = [](const OpArgs& a) -> std::vector<TensorSpec> {
      const Embedding e = embedding_of(a);
      return {{with_extent(a.in[0].shape(), e.axis, e.extent), a.in[0].dtype()}};
    },
    .cpu = slice_backward_kernel,
    .cuda = slice_backward_kernel,
    .cuda_same_bits = true,
    .vjp = slice_backward_vjp,
    .reference = slice_backward_reference,
    .samples = slice_backward_samples,
    .refuses = slice_backward_refuses,
    .symmetries = other_axes,
    .work = movement_work,
});

Tensor slice(const Tensor& x, int axis, std::int64_t start, std::int64_t stop, std::int64_t step) {
  return call1(slice_op, {x}, slice_attrs(axis, start, stop, step));
}

} // namespace eg
