// index_select: slices along an axis in the order of an index; its adjoint adds slices to zeros in index order.

#include "core/ops.h"
#include "core/ops/index/row_moves.h"
#include "core/ops/list.h"
#include "core/ops/views/strided_copy.h"

#include <fmt/format.h>

namespace eg {
namespace {

RowMove move_of(const Shape& table, int axis, const Tensor& packed_index) {
  RowMove m;
  m.outer = outer_size(table, axis);
  m.extent = table[axis];
  m.count = packed_index.numel();
  m.inner = inner_size(table, axis);
  m.index = index_address(packed_index);
  return m;
}

void check_index_list(const OpArgs& a) {
  check_dtype(a, 1, DType::i64);
  if (a.in[1].rank() != 1)
    throw ShapeError(fmt::format("{}: index must be [K], it is {}", a.op.name, a.in[1].shape().str()));
}

std::vector<TensorSpec> select_infer(const OpArgs& a) {
  check_index_list(a);
  return {{with_extent(a.in[0].shape(), axis_of(a), a.in[1].numel()), a.in[0].dtype()}};
}

void select_cpu(const OpArgs& a, std::span<Tensor> out) {
  const Tensor x = a.in[0].contiguous();
  const Tensor index = a.in[1].contiguous();
  const int axis = axis_of(a);
  check_indices("index_select", index, x.shape()[axis]);
  take_rows(x.dtype(), move_of(x.shape(), axis, index), x.bytes(), out[0].mutable_bytes("index_select"));
}

void select_cuda(const OpArgs& a, std::span<Tensor> out) {
  const Tensor x = packed(a.in[0]);
  const Tensor index = packed(a.in[1]);
  take_on_device("index_select", move_of(x.shape(), axis_of(a), index), false, x, out[0]);
}

std::vector<Tensor> select_reference(const OpArgs& a) {
  const auto axis = static_cast<std::size_t>(axis_of(a));
  return {tabulate(select_infer(a)[0].shape, a.in[0].dtype(), [&](Index i) {
    i[axis] = static_cast<std::int64_t>(read(a.in[1], {i[axis]}));
    return read(a.in[0], i);
  })};
}

Tensor index_of(std::initializer_list<std::int64_t> values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

Attrs at_axis(std::int64_t axis) { return {{"axis", axis}}; }

std::vector<Sample> select_samples(DType dtype) {
  return {{{sample_values({4, 3}, dtype, 1), index_of({3, 0, 3})}, at_axis(0), "a row twice"},
          {{sample_values({2, 5, 3}, dtype, 2), index_of({4, 4, 1, 0, 2, 3})}, at_axis(1), "in the middle"},
          {{sample_transposed({9, 7}, dtype, 3), index_of({6, 2})}, at_axis(-1), "columns of a transposed matrix"},
          {{sample_values({7, 33}, dtype, 4), index_of({32, 0, 5, 5, 17})}, at_axis(-1), "columns"},
          {{sample_values({1, 2}, dtype, 5), index_of({0, 0})}, at_axis(0), "an axis of size 1"},
          {{sample_values({3, 2}, dtype, 6), index_of({})}, at_axis(0), "no indices"}};
}

std::vector<Refusal> select_refuses() {
  const Tensor x = Tensor::zeros({4, 3});
  return {{{x, index_of({0, 4})}, at_axis(0), "index 4 at position 1 is outside [0, 4)"},
          {{x, index_of({-1})}, at_axis(1), "index -1 at position 0 is outside [0, 3)"},
          {{x, index_of({0})}, at_axis(2), "axis 2 is outside [-2, 2)"},
          {{x, Tensor::zeros({2})}, at_axis(0), "index must be i64, it is f32"},
          {{x, Tensor::zeros({2, 2}, DType::i64)}, at_axis(0), "index must be [K], it is [2, 2]"}};
}

std::vector<Symmetry> select_symmetries(const Sample& s) {
  const int rank = s.in[0].rank();
  const int axis = normalize_axis("index_select", s.attrs.integer("axis"), rank);
  std::vector<Symmetry> list;
  for (int i = 0; i < rank; ++i)
    if (i != axis) add_axis_symmetry(list, s, i, i);
  if (s.in[1].numel() >= 2) list.push_back({"order", {in_leg(1, 0), out_leg(0, axis)}});
  if (s.in[0].shape()[axis] >= 2) list.push_back({"indexed axis", {in_leg(0, axis)}, {1}});
  return list;
}

std::vector<TensorSpec> backward_infer(const OpArgs& a) {
  check_floating(a, 0);
  check_index_list(a);
  const int axis = axis_of(a);
  const Shape& grad = a.in[0].shape();
  if (grad[axis] != a.in[1].numel())
    throw ShapeError(fmt::format("index_select_backward: grad must have one slice per index: grad is {}, index is {}",
                                 grad.str(), a.in[1].shape().str()));
  const std::int64_t extent = a.attrs.integer("extent");
  if (extent < 0) throw ValueError(fmt::format("index_select_backward: extent is {}; it must not be negative", extent));
  return {{with_extent(grad, axis, extent), a.in[0].dtype()}};
}

template <bool exact> void backward_cpu(const OpArgs& a, std::span<Tensor> out) {
  const Tensor grad = a.in[0].contiguous();
  const Tensor index = a.in[1].contiguous();
  const int axis = axis_of(a);
  check_indices("index_select_backward", index, out[0].shape()[axis]);
  if (exact) fill_zeros(out[0]);
  (exact ? add_rows_exact : sum_rows)(grad.dtype(), move_of(out[0].shape(), axis, index), grad.bytes(),
                                      out[0].mutable_bytes("index_select"));
}

void backward_cuda(const OpArgs& a, std::span<Tensor> out) {
  const Tensor grad = packed(a.in[0]);
  const Tensor index = packed(a.in[1]);
  fill_zeros(out[0]);
  add_on_device("index_select_backward", move_of(out[0].shape(), axis_of(a), index), false, grad, out[0]);
}

std::vector<Tensor> backward_reference(const OpArgs& a) {
  const auto axis = static_cast<std::size_t>(axis_of(a));
  return {tabulate(backward_infer(a)[0].shape, a.in[0].dtype(), [&](const Index& y) {
    double sum = 0;
    for (std::int64_t k = 0; k < a.in[1].numel(); ++k) {
      if (static_cast<std::int64_t>(read(a.in[1], {k})) != y[axis]) continue;
      Index i = y;
      i[axis] = k;
      sum += read(a.in[0], i);
    }
    return sum;
  })};
}

Attrs backward_attrs(std::int64_t axis, std::int64_t extent) { return {{"axis", axis}, {"extent", extent}}; }

std::vector<Sample> backward_samples(DType dtype) {
  return {
      {{sample_values({3, 3}, dtype, 1), index_of({3, 0, 3})}, backward_attrs(0, 4), "a row twice"},
      {{sample_transposed({2, 6, 3}, dtype, 2), index_of({4, 4, 1, 0, 2, 4})}, backward_attrs(1, 5), "a slice thrice"},
      {{sample_values({9, 2}, dtype, 3), index_of({6, 2})}, backward_attrs(-1, 7), "columns"},
      {{sample_values({2, 2}, dtype, 4), index_of({0, 0})}, backward_attrs(0, 1), "to an axis of size 1"},
      {{sample_values({0, 2}, dtype, 5), index_of({})}, backward_attrs(0, 3), "no indices"}};
}

std::vector<Refusal> backward_refuses() {
  const Tensor grad = Tensor::zeros({2, 3});
  return {{{grad, index_of({0, 4})}, backward_attrs(0, 4), "index 4 at position 1 is outside [0, 4)"},
          {{grad, index_of({0})}, backward_attrs(0, 4), "grad is [2, 3], index is [1]"},
          {{grad, index_of({0, 1})}, backward_attrs(0, -4), "extent is -4"}};
}

std::vector<Symmetry> backward_symmetries(const Sample& s) {
  const int rank = s.in[0].rank();
  const int axis = normalize_axis("index_select_backward", s.attrs.integer("axis"), rank);
  std::vector<Symmetry> list;
  for (int i = 0; i < rank; ++i)
    if (i != axis) add_axis_symmetry(list, s, i, i);
  if (s.in[1].numel() >= 2) list.push_back({"order", {in_leg(0, axis), in_leg(1, 0)}});
  if (s.attrs.integer("extent") >= 2) list.push_back({"indexed axis", {out_leg(0, axis)}, {1}});
  return list;
}

} // namespace

constinit const OpDef index_select_op = row({
    .name = "index_select",
    .math = "y[.., k, ..] = x[.., index[k], ..]",
    .inputs = {{"x"}, {"index"}},
    .attributes = {attr_int("axis", 0, "the axis that the index runs over")},
    .infer = select_infer,
    .cpu = select_cpu,
    .cuda = select_cuda,
    .cuda_same_bits = true,
    .saves = saves::in(1),
    .vjp = [](const VjpArgs& v) -> Gradients {
      const int axis = axis_of(v);
      return {call1(index_select_backward_op, {v.grad[0], v.in[1]}, backward_attrs(axis, v.in[0].shape()[axis])),
              Tensor()};
    },
    .reference = select_reference,
    .samples = select_samples,
    .refuses = select_refuses,
    .symmetries = select_symmetries,
    .work = movement_work,
});

constinit const OpDef index_select_backward_op = row({
    .name = "index_select_backward",
    .math = "y[.., i, ..] = sum of grad[.., k, ..] over the k with index[k] = i",
    .inputs = {{"grad"}, {"index"}},
    .attributes = {attr_int("axis", 0, "the axis that the index runs over"),
                   required_attr("extent", AttrKind::integer, "extent of that axis in y")},
    .infer = backward_infer,
    .cpu = backward_cpu<false>,
    .exact = backward_cpu<true>,
    .cuda = backward_cuda,
    .cuda_same_bits = true,
    .saves = saves::in(1),
    .vjp = [](const VjpArgs& v) -> Gradients {
      return {index_select(v.grad[0], axis_of(v), v.in[1]), Tensor()};
    },
    .reference = backward_reference,
    .samples = backward_samples,
    .refuses = backward_refuses,
    .symmetries = backward_symmetries,
    .work = scatter_work<0>,
});

Tensor index_select(const Tensor& x, int axis, const Tensor& index) {
  return call1(index_select_op, {x, index}, at_axis(axis));
}

} // namespace eg
