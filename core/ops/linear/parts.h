#pragma once
// Shares what the ops of x W^T + b have in common.

#include "core/gemm/blas.h"
#include "core/op.h"
#include "core/ops/matmul/device_job.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace eg {

/// Shape of x W^T from inputs 0 and 1, x [..., in] and a matrix [out, in] of any type. Throws ShapeError.
Shape shape_of_product(const OpArgs& args);
/// Throws ShapeError where input i, a bias, is given and not [out].
void check_bias(const OpArgs& args, std::size_t i);
/// Throws ShapeError where input i, an addend, is given and has not the output's shape.
void check_addend(const OpArgs& args, std::size_t i, const Shape& shape);

/// x W^T + bias + addend where the products are exact: x and the wide weight [out, in] multiplied, the rest (inputs
/// `more` and `more` + 1, where given) added element by element.
Tensor exact_linear(const OpArgs& args, const Tensor& weight, std::size_t more);

/// Inputs `more` (bias) and `more` + 1 (addend) of a row, packed, where they are given.
struct LinearAddends {
  Tensor bias, addend;

  LinearAddends(const OpArgs& args, std::size_t more);
  /// For an output of so many columns.
  template <class T> blas::Addends<T> of(std::int64_t columns) const {
    return {bias.defined() ? bias.data<T>() : nullptr, addend.defined() ? addend.data<T>() : nullptr, columns};
  }
};

/// y = x W^T + bias + addend on a device: weight [out, in], of the type of x or bf16, or codes with scales [out]; bias
/// and addend are inputs `more` and `more` + 1 where the row has them and they are given. `activated`, where defined,
/// gets GELU of y.
void linear_product_on_device(const OpArgs& args, const Tensor& weight, const Tensor& scales, std::size_t more,
                              Tensor& y, const Tensor& activated = {}, device::GeluOf gelu = device::GeluOf::erf);

/// Adds a symmetry for each axis of x but the last: its index goes through to `others(axis)`, axis counted from the
/// end.
template <class Others> void add_row_axes(std::vector<Symmetry>& all, const Tensor& x, const Others& others) {
  for (int axis = -2; axis >= -x.rank(); --axis) {
    if (axis < -2 && x.size(axis) < 2) continue;
    Symmetry rows{axis == -2 ? "rows" : "rows, axis " + std::to_string(axis), {in_leg(0, axis)}};
    for (const Leg& leg : others(axis)) rows.legs.push_back(leg);
    all.push_back(std::move(rows));
  }
}

} // namespace eg
