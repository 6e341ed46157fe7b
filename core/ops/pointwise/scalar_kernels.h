#pragma once
// Declares the two kernels that a row of the scalar tables has for floats outside exact mode.

#include "core/ops/pointwise/kernels.h"

namespace eg::pointwise {

/// Vectors of doubles (scalar_simd.cpp); null where this processor or this row has none.
UnaryKernel<float> vector_kernel(Unary op);
BinaryKernel<float> vector_kernel(Binary op);

/// The C library's function of every element (scalar.cpp). The op is one of the scalar tables.
UnaryKernel<float> library_kernel(Unary op);
BinaryKernel<float> library_kernel(Binary op);

} // namespace eg::pointwise
