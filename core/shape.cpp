#include "core/shape.h"

#include "core/base/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace eg {

Shape::Shape(std::span<const std::int64_t> dims) {
  if (dims.size() > static_cast<std::size_t>(max_rank))
    throw ShapeError(fmt::format("shape: {} axes, at most {} are possible", dims.size(), max_rank));
  std::copy(dims.begin(), dims.end(), dims_.begin());
  rank_ = static_cast<int>(dims.size());
}

void Shape::push_back(std::int64_t extent) { insert(rank_, extent); }

void Shape::insert(int axis, std::int64_t extent) {
  if (rank_ == max_rank) throw ShapeError(fmt::format("shape: more than {} axes", max_rank));
  std::copy_backward(dims_.begin() + axis, dims_.begin() + rank_, dims_.begin() + rank_ + 1);
  dims_[static_cast<std::size_t>(axis)] = extent;
  ++rank_;
}

void Shape::erase(int axis) {
  std::copy(dims_.begin() + axis + 1, dims_.begin() + rank_, dims_.begin() + axis);
  --rank_;
}

std::int64_t Shape::numel() const {
  if (std::any_of(begin(), end(), [](std::int64_t extent) { return extent < 0; }))
    throw ShapeError(fmt::format("shape: negative extent in {}", str()));
  // Without the zeros, so that strides and products of some of the extents can be counted too.
  std::int64_t product = 1;
  for (const std::int64_t extent : dims())
    if (extent != 0 && __builtin_mul_overflow(product, extent, &product))
      throw ShapeError(fmt::format("shape: {} has more elements than can be counted", str()));
  return std::any_of(begin(), end(), [](std::int64_t extent) { return extent == 0; }) ? 0 : product;
}

std::string Shape::str() const { return fmt::format("[{}]", fmt::join(dims(), ", ")); }

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = step;
    step *= std::max<std::int64_t>(shape[axis], 1);
  }
  return strides;
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  Shape out = a.rank() >= b.rank() ? a : b;
  for (int back = 1; back <= std::min(a.rank(), b.rank()); ++back) {
    const std::int64_t x = a[-back];
    const std::int64_t y = b[-back];
    if (x != y && x != 1 && y != 1)
      throw ShapeError(fmt::format("{}: shapes do not broadcast: a is {}, b is {}", op, a.str(), b.str()));
    out[-back] = x == 1 ? y : x;
  }
  return out;
}

int normalize_axis(const char* op, std::int64_t axis, int rank) {
  if (rank == 0)
    throw IndexError(
        fmt::format("{}: axis {} is named, but the tensor has no axes; reshape it to [1] first", op, axis));
  if (axis < -rank || axis >= rank)
    throw IndexError(fmt::format("{}: axis {} is outside [-{}, {})", op, axis, rank, rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

} // namespace eg
