// Rows of roll and flip: elements change places along axes.

#include "core/device/axes.h"
#include "core/device/module.h"
#include "core/ops/list.h"
#include "core/ops/reduce/axes.h"
#include "core/ops/views/movement.h"
#include "core/ops/views/strided_copy.h"

#include <fmt/format.h>

namespace eg {
namespace {

using List = std::vector<std::int64_t>;

// --- roll ---

/// How far each axis moves, in [0, extent). Flattened: one number for all.
struct Rolls {
  bool flat = false;
  List by;
};

constexpr std::int64_t farthest = std::int64_t{1} << 60;

/// `shift` places on a ring of n, in [0, n).
std::int64_t wrapped(std::int64_t shift, std::int64_t n) {
  const std::int64_t by = shift % n;
  return by < 0 ? by + n : by;
}

Rolls rolls_of(const OpArgs& args) {
  const Shape& shape = args.in[0].shape();
  const List& shifts = args.attrs.integers("shifts");
  const List& axes = args.attrs.integers("axes");
  for (const std::int64_t shift : shifts)
    if (shift > farthest || shift < -farthest)
      throw ValueError(fmt::format("roll: shift {} is outside [{}, {}]", shift, -farthest, farthest));
  Rolls rolls{axes.empty(), List(static_cast<std::size_t>(shape.rank()), 0)};
  if (rolls.flat) {
    if (shifts.size() != 1)
      throw ValueError(fmt::format("roll: without axes there must be one shift, there are {}", shifts.size()));
    const std::int64_t n = std::max<std::int64_t>(1, shape.numel());
    rolls.by = {wrapped(shifts[0], n)};
    return rolls;
  }
  if (shifts.size() != axes.size())
    throw ValueError(fmt::format("roll: {} shifts for {} axes", shifts.size(), axes.size()));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = normalize_axis("roll", axes[i], shape.rank());
    const std::int64_t n = std::max<std::int64_t>(1, shape[axis]);
    std::int64_t& by = rolls.by[static_cast<std::size_t>(axis)];
    const std::int64_t further = wrapped(shifts[i], n); // an axis that is named twice moves twice
    by = by >= n - further ? by - (n - further) : by + further;
  }
  return rolls;
}

/// y = x with its axes from `axis` on moved: along each, the last elements of x come first. Every element is written
/// once, by the block of those that stay together.
void write_rolled(const Tensor& x, Tensor y, int axis, const List& by) {
  if (axis == x.rank()) return y.copy_from(x);
  const std::int64_t front = by[static_cast<std::size_t>(axis)];
  if (front == 0) return write_rolled(x, y, axis + 1, by);
  const std::int64_t n = x.size(axis);
  write_rolled(x.slice(axis, n - front, n), y.slice(axis, 0, front), axis + 1, by);
  write_rolled(x.slice(axis, 0, n - front), y.slice(axis, front, n), axis + 1, by);
}

void roll_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Rolls rolls = rolls_of(args);
  const Tensor& x = args.in[0];
  if (x.numel() == 0) return;
  if (rolls.flat)
    write_rolled(x.reshape({-1}), out[0].reshape({-1}), 0, rolls.by);
  else
    write_rolled(x, out[0], 0, rolls.by);
}

std::vector<Tensor> roll_reference(const OpArgs& args) {
  const Rolls rolls = rolls_of(args);
  const Tensor& x = args.in[0];
  if (rolls.flat) {
    Tensor y = reference_output(x.shape());
    const std::int64_t n = x.numel();
    for (std::int64_t i = 0; i < n; ++i) values(y)[(i + rolls.by[0]) % n] = values(x)[i];
    return {y};
  }
  return {tabulate(x.shape(), x.dtype(), [&](Index i) {
    for (std::size_t axis = 0; axis < i.size(); ++axis) {
      const std::int64_t n = x.shape()[static_cast<int>(axis)];
      i[axis] = (i[axis] + n - rolls.by[axis]) % n;
    }
    return read(x, i);
  })};
}

Attrs roll_attrs(List shifts, List axes) { return {{"shifts", std::move(shifts)}, {"axes", std::move(axes)}}; }

std::vector<Sample> roll_samples(DType dtype) {
  return {{{sample_values({3, 7}, dtype, 1)}, roll_attrs({2}, {1}), "rows"},
          {{sample_values({2, 5, 4, 3}, dtype, 2)}, roll_attrs({-1, 7}, {1, 2}), "a window of two axes"},
          {{sample_values({3, 4}, dtype, 3)}, roll_attrs({5}, {}), "flattened"},
          {{sample_transposed({33, 3}, dtype, 4)}, roll_attrs({-40, 3}, {0, 0}), "twice along one axis, transposed"},
          {{sample_values({1, 3}, dtype, 5)}, roll_attrs({4}, {0}), "an axis of one element"},
          {{sample_values({0, 3}, dtype, 6)}, roll_attrs({4}, {0}), "no elements"}};
}

std::vector<Refusal> roll_refuses() {
  const Tensor x = Tensor::zeros({2, 3});
  return {{{x}, roll_attrs({1, 2}, {0}), "2 shifts for 1 axes"},
          {{x}, roll_attrs({1, 2}, {}), "without axes there must be one shift, there are 2"},
          {{x}, roll_attrs({1}, {2}), "axis 2 is outside"},
          {{x}, {}, "attribute 'shifts' must be given"}};
}

std::vector<Symmetry> other_axes(const Sample& s, const List& axes) {
  std::vector<Symmetry> list;
  const reduce::Reduced moved = reduce::reduced_axes("axes", axes, s.in[0].shape());
  for (int axis = 0; axis < s.in[0].rank(); ++axis)
    if (!moved[static_cast<std::size_t>(axis)]) add_axis_symmetry(list, s, axis, axis);
  return list;
}

// --- flip ---

reduce::Reduced flipped(const OpArgs& args) {
  reduce::Reduced none{};
  const List& axes = args.attrs.integers("axes");
  return axes.empty() ? none : reduce::reduced_axes(args.op.name, axes, args.in[0].shape());
}

/// Where y's first element is in x, in bytes from x's first, and how far y's next ones are.
struct Reversed {
  std::int64_t first = 0;
  Shape strides;
};

Reversed reversed(const OpArgs& args) {
  const Tensor& x = args.in[0];
  const reduce::Reduced flip = flipped(args);
  Reversed from{0, x.strides()};
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!flip[static_cast<std::size_t>(axis)]) continue;
    from.first += from.strides[axis] * (x.shape()[axis] - 1) * static_cast<std::int64_t>(size_of(x.dtype()));
    from.strides[axis] = -from.strides[axis];
  }
  return from;
}

void flip_cpu(const OpArgs& args, std::span<Tensor> out) {
  const Tensor& x = args.in[0];
  if (x.numel() == 0) return;
  const Reversed from = reversed(args);
  strided_copy(x.dtype(), x.shape(), out[0].mutable_bytes("flip"), out[0].strides(), x.bytes() + from.first,
               from.strides);
}

void flip_cuda(const OpArgs& args, std::span<Tensor> out) {
  const Tensor& x = args.in[0];
  if (x.numel() == 0) return;
  const Reversed from = reversed(args);
  const device::CopyJob job{out[0].mutable_device_bytes("flip"), x.device_bytes() + from.first, size_of(x.dtype()),
                            device::merged_axes<2>(x.shape(), {out[0].strides(), from.strides})};
  device::launch(x.device(), "flip", &device::Table::copy, job);
}

std::vector<Tensor> flip_reference(const OpArgs& args) {
  const reduce::Reduced flip = flipped(args);
  const Tensor& x = args.in[0];
  return {tabulate(x.shape(), x.dtype(), [&](Index i) {
    for (std::size_t axis = 0; axis < i.size(); ++axis)
      if (flip[axis]) i[axis] = x.shape()[static_cast<int>(axis)] - 1 - i[axis];
    return read(x, i);
  })};
}

std::vector<Sample> flip_samples(DType dtype) {
  const auto along = [](List axes) { return Attrs{{"axes", std::move(axes)}}; };
  return {{{sample_values({3, 33}, dtype, 1)}, along({-1}), "rows"},
          {{sample_values({65, 7}, dtype, 2)}, along({0}), "columns"},
          {{sample_values({2, 5, 4, 3}, dtype, 3)}, along({2, 0}), "two axes"},
          {{sample_transposed({4, 3, 6}, dtype, 4)}, along({1, 2}), "transposed"},
          {{sample_values({1, 3}, dtype, 5)}, along({0}), "an axis of one element"},
          {{sample_values({0, 3}, dtype, 6)}, along({0}), "no elements"}};
}

std::vector<Refusal> flip_refuses() {
  const Tensor x = Tensor::zeros({2, 3});
  return {{{x}, {{"axes", List{2}}}, "axis 2 is outside"},
          {{x}, {{"axes", List{0, -2}}}, "axis -2 is named twice"},
          {{x}, {}, "attribute 'axes' must be given"}};
}

std::vector<TensorSpec> like_x(const OpArgs& args) { return {{args.in[0].shape(), args.in[0].dtype()}}; }

} // namespace

constinit const OpDef roll_op = row({
    .name = "roll",
    .math = "y[(i + shift) mod n] = x[i] along each axis named; none: over the flattened x",
    .inputs = {{"x"}},
    .attributes = {required_attr("shifts", AttrKind::integers, "places, one number an axis; negative: to the front"),
                   attr_ints("axes", "axes that move; empty: the flattened tensor")},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      rolls_of(args);
      return like_x(args);
    },
    .cpu = roll_kernel,
    .cuda = roll_kernel,
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& args) -> Gradients {
      if (!args.wants(0)) return {Tensor()};
      List back = args.attrs.integers("shifts");
      for (std::int64_t& shift : back) shift = -shift;
      return {roll(args.grad[0], back, args.attrs.integers("axes"))};
    },
    .reference = roll_reference,
    .samples = roll_samples,
    .refuses = roll_refuses,
    .symmetries = [](const Sample& s) -> std::vector<Symmetry> {
      List axes = s.attrs.integers("axes");
      if (axes.size() == 2 && axes[0] == axes[1]) axes.pop_back();
      return axes.empty() ? std::vector<Symmetry>{} : other_axes(s, axes);
    },
    .work = movement_work,
});

constinit const OpDef flip_op = row({
    .name = "flip",
    .math = "y[i] = x[n - 1 - i] along each axis named",
    .inputs = {{"x"}},
    .attributes = {required_attr("axes", AttrKind::integers, "axes that are turned round")},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      flipped(args);
      return like_x(args);
    },
    .cpu = flip_cpu,
    .cuda = flip_cuda,
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& args) -> Gradients {
      if (!args.wants(0)) return {Tensor()};
      return {flip(args.grad[0], args.attrs.integers("axes"))};
    },
    .reference = flip_reference,
    .samples = flip_samples,
    .refuses = flip_refuses,
    .symmetries = [](const Sample& s) { return other_axes(s, s.attrs.integers("axes")); },
    .work = movement_work,
});

Tensor roll(const Tensor& x, const List& shifts, const List& axes) {
  return call1(roll_op, {x}, roll_attrs(shifts, axes));
}

Tensor flip(const Tensor& x, const List& axes) { return call1(flip_op, {x}, {{"axes", axes}}); }

} // namespace eg
