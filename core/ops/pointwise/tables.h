#pragma once
// Joins all tables of pointwise ops in one order: that of the enumerations and of the kernels.

#include "core/ops/pointwise/table.h"
#include "core/ops/pointwise/table_activations.h"
#include "core/ops/pointwise/table_math.h"

// One line a kernel file: pointwise_simd.cpp, math_simd.cpp, activations_simd.cpp, scalar.cpp.
#define EG_ALL_UNARY_OPS(X)                                                                                            \
  EG_UNARY_OPS(X)                                                                                                      \
  EG_PARAMETRIC_OPS(X)                                                                                                 \
  EG_MATH_OPS(X)                                                                                                       \
  EG_STEP_OPS(X) EG_ACTIVATION_OPS(X) EG_PARAMETRIC_ACTIVATION_OPS(X) EG_SCALAR_OPS(X) EG_SCALAR_PARAMETRIC_OPS(X)

#define EG_ALL_BINARY_OPS(X) EG_BINARY_OPS(X) EG_MATH_BINARY_OPS(X) EG_SCALAR_BINARY_OPS(X) EG_SCALAR_BINARY_STEP_OPS(X)
