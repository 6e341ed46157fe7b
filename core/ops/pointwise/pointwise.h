#pragma once
// Declares pointwise ops of two inputs as functions, for gradient rules: the arithmetic of core/ops.h and the fused
// backward ops.

#include "core/ops.h"
#include "core/ops/pointwise/tables.h"

namespace eg {

#define EG_DECLARE(NAME, ...) Tensor NAME(const Tensor& a, const Tensor& b);
EG_ALL_BINARY_OPS(EG_DECLARE)
#undef EG_DECLARE

/// Second derivatives of the activations at x, made of ops: x phi' + 2 phi and its kin.
Tensor gelu_curvature(const Tensor& x);
Tensor gelu_tanh_curvature(const Tensor& x);
Tensor silu_curvature(const Tensor& x);
Tensor hardswish_curvature(const Tensor& x);

} // namespace eg
