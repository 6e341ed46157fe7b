#pragma once
// Runs the flat kernels on strided, broadcast tensors.

#include "core/op.h"
#include "core/ops/pointwise/kernels.h"

namespace eg::pointwise {

/// y = f(x) with the op's real attributes as parameters.
void run(Unary op, const OpArgs& args, Tensor& y);
/// y = f(a, b), broadcast to y's shape.
void run(Binary op, const OpArgs& args, Tensor& y);

/// The same on the device of the inputs.
void run_on_device(Unary op, const OpArgs& args, Tensor& y);
void run_on_device(Binary op, const OpArgs& args, Tensor& y);

/// The values of the op's real attributes, in the order of their declaration.
std::vector<double> parameters(const OpArgs& args);

} // namespace eg::pointwise
