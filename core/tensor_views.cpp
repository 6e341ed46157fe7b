// The member functions of Tensor that are operations of the registry.

#include "core/ops.h"

#include <fmt/format.h>

namespace eg {

Tensor Tensor::reshape(const Shape& shape) const { return eg::reshape(*this, shape); }

Tensor Tensor::transpose(int axis_a, int axis_b) const { return eg::transpose(*this, axis_a, axis_b); }

Tensor Tensor::permute(std::initializer_list<std::int64_t> axes) const { return eg::permute_axes(*this, axes); }

Tensor Tensor::slice(int axis, std::int64_t start, std::int64_t stop, std::int64_t step) const {
  return eg::slice(*this, axis, start, stop, step);
}

Tensor Tensor::select(int axis, std::int64_t index) const {
  const int place = normalize_axis("select", axis, impl("select").shape.rank());
  const std::int64_t extent = shape()[place];
  if (index < -extent || index >= extent)
    throw IndexError(fmt::format("select: index {} is outside [{}, {}) on axis {} of {}", index, -extent, extent, place,
                                 shape().str()));
  const std::int64_t start = index < 0 ? index + extent : index;
  return eg::squeeze(eg::slice(*this, place, start, start + 1), place);
}

Tensor Tensor::expand(const Shape& shape) const { return eg::expand(*this, shape); }

Tensor Tensor::squeeze(int axis) const { return eg::squeeze(*this, axis); }

Tensor Tensor::unsqueeze(int axis) const { return eg::unsqueeze(*this, axis); }

Tensor Tensor::contiguous() const { return defined() && is_contiguous() ? *this : eg::contiguous(*this); }

// The row copies what is packed already, too.
Tensor Tensor::clone() const {
  impl("clone"); // an undefined tensor is refused in its name
  return eg::contiguous(*this);
}

Tensor Tensor::to(DType wanted) const { return defined() && dtype() == wanted ? *this : eg::cast(*this, wanted); }

Tensor Tensor::to(Device wanted) const {
  return defined() && device() == wanted ? *this : eg::to_device(*this, wanted);
}

} // namespace eg
