#include "core/ops/reduce/axes.h"

#include <fmt/format.h>

namespace eg::reduce {

Reduced reduced_axes(std::string_view op, const std::vector<std::int64_t>& axes, const Shape& shape) {
  Reduced reduced{};
  for (int axis = 0; axis < shape.rank(); ++axis) reduced[static_cast<std::size_t>(axis)] = axes.empty();
  // Of a tensor without axes 0 and -1 name its one element, as in PyTorch and NumPy.
  if (shape.rank() == 0 && axes.size() == 1 && (axes[0] == 0 || axes[0] == -1)) return reduced;
  for (const std::int64_t axis : axes) {
    const auto a = static_cast<std::size_t>(normalize_axis(std::string(op).c_str(), axis, shape.rank()));
    if (reduced[a]) throw ValueError(fmt::format("{}: axis {} is named twice: x is {}", op, axis, shape.str()));
    reduced[a] = true;
  }
  return reduced;
}

Reduced summed_axes(std::string_view op, const Shape& shape, const Shape& target) {
  const auto refuse = [&] {
    throw ShapeError(
        fmt::format("{}: x is not a broadcast of the shape: x is {}, shape is {}", op, shape.str(), target.str()));
  };
  if (target.rank() > shape.rank()) refuse();
  Reduced reduced{};
  for (int back = 1; back <= shape.rank(); ++back) {
    const bool has = back <= target.rank();
    if (has && target[-back] != shape[-back] && target[-back] != 1) refuse();
    reduced[static_cast<std::size_t>(shape.rank() - back)] = !has || target[-back] != shape[-back];
  }
  return reduced;
}

Shape reduced_shape(const Shape& shape, const Reduced& reduced, bool keepdim) {
  Shape out;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!reduced[static_cast<std::size_t>(axis)])
      out.push_back(shape[axis]);
    else if (keepdim)
      out.push_back(1);
  }
  return out;
}

std::int64_t reduced_count(const Shape& shape, const Reduced& reduced) {
  std::int64_t count = 1;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (reduced[static_cast<std::size_t>(axis)]) count *= shape[axis];
  return count;
}

std::vector<Symmetry> reduction_symmetries(const Shape& shape, const Reduced& reduced, bool keepdim) {
  std::vector<Symmetry> all;
  int out_axis = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool gone = reduced[static_cast<std::size_t>(axis)];
    if (shape[axis] >= 2) {
      Symmetry symmetry{fmt::format("{} axis {}", gone ? "reduced" : "kept", axis), {in_leg(0, axis)}};
      if (!gone) symmetry.legs.push_back(out_leg(0, out_axis));
      symmetry.bit_exact = !gone;
      all.push_back(std::move(symmetry));
    }
    if (!gone || keepdim) ++out_axis;
  }
  return all;
}

} // namespace eg::reduce
