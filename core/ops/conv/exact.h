#pragma once
// Computes the three products of a convolution in exact mode, from unfold, fold and exact products.

#include "core/ops/conv/geometry.h"

namespace eg::conv {

/// Inputs x, weight, bias (may be missing).
void exact_forward(const Conv& c, const OpArgs& args, Tensor& y);
/// Inputs weight, g. The sums over a window's taps keep their order; no symmetry moves them.
void exact_input_backward(const Conv& c, const OpArgs& args, Tensor& dx);
/// Inputs x, g.
void exact_weight_backward(const Conv& c, const OpArgs& args, Tensor& dw);

} // namespace eg::conv
