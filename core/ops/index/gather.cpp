// gather and scatter_add: one index per element, along one axis; each is the other's adjoint.

#include "core/ops.h"
#include "core/ops/index/row_moves.h"
#include "core/ops/list.h"
#include "core/ops/views/strided_copy.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg {
namespace {

/// index must be i64 and have x's extents on every axis but one.
void check_index(const OpArgs& a) {
  check_dtype(a, 1, DType::i64);
  const int axis = axis_of(a);
  const Shape& x = a.in[0].shape();
  const Shape& index = a.in[1].shape();
  if (index.rank() != x.rank() || with_extent(x, axis, 0) != with_extent(index, axis, 0))
    throw ShapeError(fmt::format("{}: index must have x's extents but on axis {}: x is {}, index is {}", a.op.name,
                                 axis, x.str(), index.str()));
}

RowMove move_of(const Shape& x, int axis, const Tensor& packed_index) {
  RowMove m;
  m.outer = outer_size(x, axis);
  m.extent = x[axis];
  m.count = packed_index.shape()[axis];
  m.inner = inner_size(x, axis);
  m.index = index_address(packed_index);
  m.shared = false;
  return m;
}

std::vector<TensorSpec> gather_infer(const OpArgs& a) {
  check_index(a);
  return {{a.in[1].shape(), a.in[0].dtype()}};
}

void gather_cpu(const OpArgs& a, std::span<Tensor> out) {
  const Tensor x = a.in[0].contiguous();
  const Tensor index = a.in[1].contiguous();
  const int axis = axis_of(a);
  check_indices("gather", index, x.shape()[axis]);
  take_elements(x.dtype(), move_of(x.shape(), axis, index), x.bytes(), out[0].mutable_bytes("gather"));
}

void gather_cuda(const OpArgs& a, std::span<Tensor> out) {
  const Tensor x = packed(a.in[0]);
  const Tensor index = packed(a.in[1]);
  take_on_device("gather", move_of(x.shape(), axis_of(a), index), true, x, out[0]);
}

std::vector<Tensor> gather_reference(const OpArgs& a) {
  const auto axis = static_cast<std::size_t>(axis_of(a));
  return {tabulate(a.in[1].shape(), a.in[0].dtype(), [&](Index i) {
    i[axis] = static_cast<std::int64_t>(read(a.in[1], i));
    return read(a.in[0], i);
  })};
}

Tensor indices(const Shape& shape, std::int64_t extent, std::uint64_t seed) {
  return random_integers(shape, RandomKey{seed, 0x1d}, 0, extent);
}

Attrs at_axis(std::int64_t axis) { return {{"axis", axis}}; }

std::vector<Sample> gather_samples(DType dtype) {
  return {{{sample_values({3, 4}, dtype, 1), indices({3, 6}, 4, 2)}, at_axis(-1), "along rows"},
          {{sample_values({2, 5, 3}, dtype, 3), indices({2, 2, 3}, 5, 4)}, at_axis(1), "in the middle"},
          {{sample_transposed({4, 33}, dtype, 5), indices({33, 7}, 4, 6).transpose()}, at_axis(0), "all transposed"},
          {{sample_values({4, 1}, dtype, 7), indices({4, 2}, 1, 8)}, at_axis(1), "an axis of size 1"},
          {{sample_values({4, 3}, dtype, 9), indices({4, 0}, 3, 10)}, at_axis(1), "no indices"}};
}

std::vector<Refusal> gather_refuses() {
  const Tensor x = Tensor::zeros({2, 3});
  return {{{x, Tensor::from<std::int64_t>({0, 3}, {2, 1})}, at_axis(1), "index 3 at position 1 is outside [0, 3)"},
          {{x, Tensor::zeros({3, 3}, DType::i64)}, at_axis(1), "x is [2, 3], index is [3, 3]"},
          {{x, Tensor::zeros({2}, DType::i64)}, at_axis(1), "x is [2, 3], index is [2]"},
          {{x, Tensor::zeros({2, 3})}, at_axis(1), "index must be i64, it is f32"},
          {{x, Tensor::zeros({2, 3}, DType::i64)}, at_axis(5), "axis 5 is outside [-2, 2)"}};
}

std::vector<Symmetry> gather_symmetries(const Sample& s) {
  const Shape& x = s.in[0].shape();
  const int axis = normalize_axis("gather", s.attrs.integer("axis"), x.rank());
  std::vector<Symmetry> list;
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis && x[i] >= 2)
      list.push_back({fmt::format("axis {}", i), {in_leg(0, i), in_leg(1, i), out_leg(0, i)}});
  if (s.in[1].shape()[axis] >= 2) list.push_back({"order", {in_leg(1, axis), out_leg(0, axis)}});
  if (x[axis] >= 2) list.push_back({"indexed axis", {in_leg(0, axis)}, {1}});
  return list;
}

std::vector<TensorSpec> scatter_infer(const OpArgs& a) {
  if (a.in[0].dtype() != DType::i64) check_floating(a, 0);
  check_index(a);
  check_dtype(a, 2, a.in[0].dtype());
  if (a.in[1].shape() != a.in[2].shape())
    throw ShapeError(fmt::format("scatter_add: index and source must have one shape: index is {}, source is {}",
                                 a.in[1].shape().str(), a.in[2].shape().str()));
  return {{a.in[0].shape(), a.in[0].dtype()}};
}

template <bool exact> void scatter_cpu(const OpArgs& a, std::span<Tensor> out) {
  const Tensor index = a.in[1].contiguous();
  const Tensor source = a.in[2].contiguous();
  const int axis = axis_of(a);
  const Shape& shape = out[0].shape();
  check_indices("scatter_add", index, shape[axis]);
  if (shape.numel() == 0) return;
  std::byte* const y = out[0].mutable_bytes("scatter_add");
  if (exact && is_floating(source.dtype())) {
    pack_into(y, a.in[0]);
    return add_elements_exact(source.dtype(), move_of(shape, axis, index), source.bytes(), y);
  }
  const Shape& strides = a.in[0].strides();
  const bool repeated = std::all_of(strides.begin(), strides.end(), [](std::int64_t step) { return step == 0; });
  const Tensor x = repeated ? a.in[0] : packed(a.in[0]);
  add_elements(source.dtype(), move_of(shape, axis, index), {x.bytes(), repeated}, source.bytes(), y);
}

void scatter_cuda(const OpArgs& a, std::span<Tensor> out) {
  const Tensor index = packed(a.in[1]);
  const Tensor source = packed(a.in[2]);
  out[0].copy_from(a.in[0]);
  add_on_device("scatter_add", move_of(out[0].shape(), axis_of(a), index), true, source, out[0]);
}

std::vector<Tensor> scatter_reference(const OpArgs& a) {
  const int axis = axis_of(a);
  const auto along = static_cast<std::size_t>(axis);
  return {tabulate(a.in[0].shape(), a.in[0].dtype(), [&](const Index& y) {
    double sum = read(a.in[0], y);
    Index i = y;
    for (i[along] = 0; i[along] < a.in[1].shape()[axis]; ++i[along])
      if (static_cast<std::int64_t>(read(a.in[1], i)) == y[along]) sum += read(a.in[2], i);
    return sum;
  })};
}

std::vector<Sample> scatter_samples(DType dtype) {
  return {
      {{sample_values({3, 4}, dtype, 1), indices({3, 6}, 4, 2), sample_values({3, 6}, dtype, 3)},
       at_axis(-1),
       "along rows"},
      {{sample_values({2, 5, 3}, dtype, 4), indices({2, 2, 3}, 5, 5), sample_values({2, 2, 3}, dtype, 6)},
       at_axis(1),
       "in the middle"},
      {{sample_transposed({4, 65}, dtype, 7), indices({65, 9}, 4, 8).transpose(), sample_transposed({9, 65}, dtype, 9)},
       at_axis(0),
       "all transposed"},
      {{sample_values({4, 1}, dtype, 10), indices({4, 3}, 1, 11), sample_values({4, 3}, dtype, 12)},
       at_axis(1),
       "an axis of size 1"},
      {{sample_values({4, 3}, dtype, 13), indices({4, 0}, 3, 14), sample_values({4, 0}, dtype, 15)},
       at_axis(1),
       "no indices"}};
}

std::vector<Refusal> scatter_refuses() {
  const Tensor x = Tensor::zeros({2, 3});
  const Tensor index = Tensor::from<std::int64_t>({0, 3}, {2, 1});
  return {{{x, index, Tensor::zeros({2, 1})}, at_axis(1), "index 3 at position 1 is outside [0, 3)"},
          {{x, index, Tensor::zeros({2, 2})}, at_axis(1), "index is [2, 1], source is [2, 2]"},
          {{x, index, Tensor::zeros({2, 1}, DType::i64)}, at_axis(1), "source must be f32, it is i64"},
          {{x, Tensor::zeros({3, 1}, DType::i64), Tensor::zeros({3, 1})}, at_axis(1), "x is [2, 3], index is [3, 1]"},
          {{x.to(DType::u8), index, x.to(DType::u8)}, at_axis(1), "x must be"}};
}

std::vector<Symmetry> scatter_symmetries(const Sample& s) {
  const Shape& x = s.in[0].shape();
  const int axis = normalize_axis("scatter_add", s.attrs.integer("axis"), x.rank());
  std::vector<Symmetry> list;
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis && x[i] >= 2)
      list.push_back({fmt::format("axis {}", i), {in_leg(0, i), in_leg(1, i), in_leg(2, i), out_leg(0, i)}});
  if (s.in[1].shape()[axis] >= 2) list.push_back({"order", {in_leg(1, axis), in_leg(2, axis)}});
  if (x[axis] >= 2) list.push_back({"indexed axis", {in_leg(0, axis), out_leg(0, axis)}, {1}});
  return list;
}

} // namespace

constinit const OpDef gather_op = row({
    .name = "gather",
    .math = "y[.., k, ..] = x[.., index[.., k, ..], ..]",
    .inputs = {{"x"}, {"index"}},
    .attributes = {attr_int("axis", -1, "the axis that the index runs over")},
    .infer = gather_infer,
    .cpu = gather_cpu,
    .cuda = gather_cuda,
    .cuda_same_bits = true,
    .saves = saves::in(1),
    .vjp = [](const VjpArgs& v) -> Gradients {
      const Tensor zero = Tensor::zeros({}, v.grad[0].dtype()); // expanded: the row writes the only copy
      return {scatter_add(expand(zero, v.in[0].shape()), axis_of(v), v.in[1], v.grad[0]), Tensor()};
    },
    .reference = gather_reference,
    .samples = gather_samples,
    .refuses = gather_refuses,
    .symmetries = gather_symmetries,
    .work = movement_work,
});

constinit const OpDef scatter_add_op = row({
    .name = "scatter_add",
    .math = "y = x, then y[.., index[.., k, ..], ..] += source[.., k, ..] in the order of k",
    .inputs = {{"x"}, {"index"}, {"source"}},
    .attributes = {attr_int("axis", -1, "the axis that the index runs over")},
    .infer = scatter_infer,
    .cpu = scatter_cpu<false>,
    .exact = scatter_cpu<true>,
    .cuda = scatter_cuda,
    .cuda_same_bits = true,
    .saves = saves::in(1),
    .vjp = [](const VjpArgs& v) -> Gradients {
      Gradients grads(3);
      if (v.wants(0)) grads[0] = v.grad[0];
      if (v.wants(2)) grads[2] = gather(v.grad[0], axis_of(v), v.in[1]);
      return grads;
    },
    .reference = scatter_reference,
    .samples = scatter_samples,
    .refuses = scatter_refuses,
    .symmetries = scatter_symmetries,
    .work = scatter_work<2>,
});

Tensor gather(const Tensor& x, int axis, const Tensor& index) { return call1(gather_op, {x, index}, at_axis(axis)); }

Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source) {
  return call1(scatter_add_op, {x, index, source}, at_axis(axis));
}

} // namespace eg
