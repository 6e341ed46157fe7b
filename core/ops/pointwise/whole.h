#pragma once
// Runs arithmetic on whole numbers, in i64: a result that 64 bits do not hold is an error, never a wrapped number.

#include "core/op.h"
#include "core/ops/pointwise/kernels.h"

namespace eg::pointwise {

/// True for the pointwise ops of one input that take whole numbers too.
constexpr bool takes_whole(Unary op) {
  switch (op) {
  case Unary::neg:
  case Unary::abs:
  case Unary::sign:
  case Unary::square:
  case Unary::relu:
  case Unary::affine:
  case Unary::clamp:
  case Unary::floor:
  case Unary::ceil:
  case Unary::trunc:
  case Unary::round:
  case Unary::pow_scalar:
    return true;
  default:
    return false;
  }
}

/// Throws DTypeError where x is whole and an attribute is not: "affine: scale is 0.5; ...".
void check_whole_parameters(const OpArgs& args);

/// y = f(x) for whole x; y is i64. Throws ValueError where a result is beyond 64 bits.
void run_whole(Unary op, const OpArgs& args, Tensor& y);
/// y = f(a, b) for whole a and b, broadcast; y is i64. Throws ValueError where a result is beyond 64 bits, where a
/// divisor is 0, and for a negative exponent.
void run_whole(Binary op, const OpArgs& args, Tensor& y);

} // namespace eg::pointwise
