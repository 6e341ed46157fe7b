#include "core/ops/views/movement.h"

#include "core/strided.h"

#include <fmt/format.h>

namespace eg {

void for_each_index(const Shape& shape, FunctionRef<void(const Index&)> visit) {
  if (shape.numel() == 0) return;
  Index index(static_cast<std::size_t>(shape.rank()), 0);
  while (true) {
    visit(index);
    int axis = shape.rank() - 1;
    for (; axis >= 0; --axis) {
      std::int64_t& at = index[static_cast<std::size_t>(axis)];
      if (++at < shape[axis]) break;
      at = 0;
    }
    if (axis < 0) return;
  }
}

Tensor tabulate(const Shape& shape, DType dtype, FunctionRef<double(const Index&)> value) {
  Tensor y = Tensor::empty(shape, dtype);
  visit_dtype(dtype, [&]<class T>() {
    T* at = y.mutable_data<T>("reference");
    for_each_index(shape, [&](const Index& index) { *at++ = static_cast<T>(value(index)); });
  });
  return y;
}

double read(const Tensor& x, const Index& index) {
  std::int64_t offset = 0;
  for (int axis = 0; axis < x.rank(); ++axis) offset += index[static_cast<std::size_t>(axis)] * x.strides()[axis];
  double value = 0;
  visit_dtype(x.dtype(), [&]<class T>() { value = static_cast<double>(x.data<T>()[offset]); });
  return value;
}

std::vector<std::int64_t> list_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

Shape shape_attribute(const OpArgs& a, std::string_view name) {
  const std::vector<std::int64_t>& extents = a.attrs.integers(name);
  if (extents.size() > static_cast<std::size_t>(max_rank))
    throw ShapeError(
        fmt::format("{}: shape has {} axes, at most {} are possible", a.op.name, extents.size(), max_rank));
  return Shape(extents);
}

Shape with_new_axis(const OpArgs& a, Shape shape, int axis, std::int64_t extent) {
  if (shape.rank() == max_rank)
    throw ShapeError(fmt::format("{}: the result would have more than {} axes: {} has {}", a.op.name, max_rank,
                                 shape.str(), max_rank));
  shape.insert(axis, extent);
  return shape;
}

std::int64_t integer_or(const Attrs& attrs, std::string_view name, std::int64_t fallback) {
  return attrs.has(name) ? attrs.integer(name) : fallback;
}

Tensor sample_values(const Shape& shape, DType dtype, std::uint64_t seed) {
  return random_normal(shape, RandomKey{seed, 0x5a}, 0.3, 1.7, dtype);
}

Tensor sample_transposed(const Shape& shape, DType dtype, std::uint64_t seed) {
  Shape lying = shape;
  std::swap(lying[-2], lying[-1]);
  return sample_values(lying, dtype, seed).transpose(-2, -1);
}

void add_axis_symmetry(std::vector<Symmetry>& list, const Sample& s, int in_axis, int out_axis) {
  if (s.in[0].shape()[in_axis] < 2) return;
  list.push_back({fmt::format("axis {}", in_axis), {in_leg(0, in_axis), out_leg(0, out_axis)}});
}

Shape with_extent(Shape shape, int axis, std::int64_t extent) {
  shape[axis] = extent;
  return shape;
}

std::int64_t outer_size(const Shape& shape, int axis) {
  return Shape(shape.dims().subspan(0, static_cast<std::size_t>(axis))).numel();
}

std::int64_t inner_size(const Shape& shape, int axis) {
  return Shape(shape.dims().subspan(static_cast<std::size_t>(axis) + 1)).numel();
}

Work movement_work(const OpArgs& a, std::span<const TensorSpec> out) { return {0.0, bytes_moved(a, out)}; }

} // namespace eg
