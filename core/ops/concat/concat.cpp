// concat and stack: any number of tensors side by side along an axis, or along a new one.

#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/views/movement.h"
#include "core/ops/views/strided_copy.h"

#include <fmt/format.h>

namespace eg {
namespace {

void check_types(const OpArgs& a) {
  for (const Tensor& x : a.in)
    if (x.dtype() != a.in[0].dtype())
      throw DTypeError(fmt::format("{}: all must have one type: the first is {}, another is {}", a.op.name,
                                   name_of(a.in[0].dtype()), name_of(x.dtype())));
}

int concat_axis(const OpArgs& a) { return normalize_axis("concat", a.attrs.integer("axis"), a.in[0].rank()); }

std::vector<TensorSpec> concat_infer(const OpArgs& a) {
  check_types(a);
  const int axis = concat_axis(a);
  const Shape& first = a.in[0].shape();
  Shape shape = with_extent(first, axis, 0);
  for (const Tensor& x : a.in) {
    bool fits = x.rank() == first.rank();
    for (int i = 0; fits && i < first.rank(); ++i) fits = i == axis || x.shape()[i] == first[i];
    if (!fits)
      throw ShapeError(fmt::format("concat: extents differ on another axis than {}: a is {}, b is {}", axis,
                                   first.str(), x.shape().str()));
    shape[axis] += x.shape()[axis];
  }
  return {{shape, a.in[0].dtype()}};
}

void concat_kernel(const OpArgs& a, std::span<Tensor> out) {
  const int axis = concat_axis(a);
  std::int64_t start = 0;
  for (const Tensor& x : a.in) {
    write_along(out[0], x, axis, start);
    start += x.shape()[axis];
  }
}

Gradients concat_vjp(const VjpArgs& v) {
  const int axis = concat_axis(v);
  Gradients grads(v.in.size());
  std::int64_t start = 0;
  for (std::size_t i = 0; i < v.in.size(); ++i) {
    const std::int64_t extent = v.in[i].shape()[axis];
    if (v.wants(i)) grads[i] = slice(v.grad[0], axis, start, start + extent);
    start += extent;
  }
  return grads;
}

std::vector<Tensor> concat_reference(const OpArgs& a) {
  const auto axis = static_cast<std::size_t>(concat_axis(a));
  return {tabulate(concat_infer(a)[0].shape, a.in[0].dtype(), [&](Index i) {
    std::size_t which = 0;
    while (i[axis] >= a.in[which].shape()[static_cast<int>(axis)])
      i[axis] -= a.in[which++].shape()[static_cast<int>(axis)];
    return read(a.in[which], i);
  })};
}

Attrs at_axis(std::int64_t axis) { return {{"axis", axis}}; }

std::vector<Sample> concat_samples(DType dtype) {
  return {{{sample_values({2, 3}, dtype, 1), sample_values({2, 5}, dtype, 2), sample_values({2, 1}, dtype, 3)},
           at_axis(-1),
           "columns"},
          {{sample_values({2, 1, 3}, dtype, 4), sample_transposed({2, 4, 3}, dtype, 5)},
           at_axis(1),
           "a token before transposed tokens"},
          {{sample_values({3}, dtype, 6)}, at_axis(0), "one tensor"},
          {{sample_values({2, 0}, dtype, 7), sample_values({2, 2}, dtype, 8)}, at_axis(1), "one without elements"}};
}

std::vector<Refusal> concat_refuses() {
  const Tensor x = Tensor::zeros({4, 3});
  return {{{x, Tensor::zeros({5, 3})}, at_axis(1), "extents differ on another axis than 1: a is [4, 3], b is [5, 3]"},
          {{x, Tensor::zeros({4})}, at_axis(0), "extents differ"},
          {{x, x}, at_axis(2), "axis 2 is outside [-2, 2)"},
          {{x, Tensor::zeros({4, 3}, DType::i64)}, at_axis(0), "all must have one type"},
          {{x, Tensor::zeros({4, 3}, DType::f64)}, at_axis(0), "different types"},
          {{}, at_axis(0), "at least one tensor"}};
}

/// Every axis but the joined one, moved in all inputs together.
std::vector<Symmetry> joint_axes(const Sample& s, int joined, bool is_new) {
  std::vector<Symmetry> list;
  for (int axis = 0; axis < s.in[0].rank(); ++axis) {
    if ((axis == joined && !is_new) || s.in[0].shape()[axis] < 2) continue;
    Symmetry symmetry{fmt::format("axis {}", axis), {out_leg(0, is_new && axis >= joined ? axis + 1 : axis)}};
    for (std::size_t i = 0; i < s.in.size(); ++i) symmetry.legs.push_back(in_leg(static_cast<int>(i), axis));
    list.push_back(symmetry);
  }
  return list;
}

int stack_axis(const OpArgs& a) { return normalize_axis("stack", a.attrs.integer("axis"), a.in[0].rank() + 1); }

std::vector<TensorSpec> stack_infer(const OpArgs& a) {
  check_types(a);
  const int axis = stack_axis(a);
  const Shape& shape = a.in[0].shape();
  for (const Tensor& x : a.in)
    if (x.shape() != shape)
      throw ShapeError(fmt::format("stack: shapes differ: a is {}, b is {}", shape.str(), x.shape().str()));
  return {{with_new_axis(a, shape, axis, static_cast<std::int64_t>(a.in.size())), a.in[0].dtype()}};
}

void stack_kernel(const OpArgs& a, std::span<Tensor> out) {
  const int axis = stack_axis(a);
  for (std::size_t i = 0; i < a.in.size(); ++i)
    write_along(out[0], unsqueeze(a.in[i], axis), axis, static_cast<std::int64_t>(i));
}

Gradients stack_vjp(const VjpArgs& v) {
  const int axis = stack_axis(v);
  Gradients grads(v.in.size());
  for (std::size_t i = 0; i < v.in.size(); ++i)
    if (v.wants(i)) grads[i] = v.grad[0].select(axis, static_cast<std::int64_t>(i));
  return grads;
}

std::vector<Tensor> stack_reference(const OpArgs& a) {
  const int axis = stack_axis(a);
  return {tabulate(stack_infer(a)[0].shape, a.in[0].dtype(), [&](Index i) {
    const auto which = static_cast<std::size_t>(i[static_cast<std::size_t>(axis)]);
    i.erase(i.begin() + axis);
    return read(a.in[which], i);
  })};
}

std::vector<Sample> stack_samples(DType dtype) {
  return {{{sample_values({3, 4}, dtype, 1), sample_transposed({3, 4}, dtype, 2)}, at_axis(0), "in front"},
          {{sample_values({3, 4}, dtype, 3), sample_values({3, 4}, dtype, 4), sample_values({3, 4}, dtype, 5)},
           at_axis(-1),
           "behind"},
          {{sample_values({}, dtype, 6), sample_values({}, dtype, 7)}, at_axis(0), "scalars"},
          {{sample_values({0, 2}, dtype, 8)}, at_axis(1), "no elements"}};
}

std::vector<Refusal> stack_refuses() {
  const Tensor x = Tensor::zeros({4, 3});
  return {{{x, Tensor::zeros({3, 4})}, at_axis(0), "shapes differ: a is [4, 3], b is [3, 4]"},
          {{x, x}, at_axis(3), "axis 3 is outside [-3, 3)"},
          {{x, Tensor::zeros({4, 3}, DType::u8)}, at_axis(0), "all must have one type"}};
}

} // namespace

constinit const OpDef concat_op = row({
    .name = "concat",
    .math = "y = x_1, x_2, ... side by side along one axis",
    .inputs = {{"xs"}},
    .variadic = true,
    .attributes = {attr_int("axis", 0, "the axis along which they are joined")},
    .infer = concat_infer,
    .cpu = concat_kernel,
    .cuda = concat_kernel,
    .cuda_same_bits = true,
    .vjp = concat_vjp,
    .reference = concat_reference,
    .samples = concat_samples,
    .refuses = concat_refuses,
    .symmetries =
        [](const Sample& s) {
          return joint_axes(s, normalize_axis("concat", s.attrs.integer("axis"), s.in[0].rank()), false);
        },
    .work = movement_work,
});

constinit const OpDef stack_op = row({
    .name = "stack",
    .math = "y[.., i, ..] = x_i along a new axis",
    .inputs = {{"xs"}},
    .variadic = true,
    .attributes = {attr_int("axis", 0, "place of the new axis in y")},
    .infer = stack_infer,
    .cpu = stack_kernel,
    .cuda = stack_kernel,
    .cuda_same_bits = true,
    .vjp = stack_vjp,
    .reference = stack_reference,
    .samples = stack_samples,
    .refuses = stack_refuses,
    .symmetries =
        [](const Sample& s) {
          return joint_axes(s, normalize_axis("stack", s.attrs.integer("axis"), s.in[0].rank() + 1), true);
        },
    .work = movement_work,
});

Tensor concat(const std::vector<Tensor>& xs, int axis) { return call(concat_op, xs, at_axis(axis)).front(); }
Tensor stack(const std::vector<Tensor>& xs, int axis) { return call(stack_op, xs, at_axis(axis)).front(); }

} // namespace eg
