#pragma once
// Computes the three products of a convolution on a device, from unfold, fold and products of matrices.

#include "core/ops/conv/geometry.h"

namespace eg::conv {

// The columns of some images at a time are in memory: c.column_bytes of them, or those of one image.

/// Inputs x, weight, bias (may be missing).
void device_forward(const Conv& c, const OpArgs& args, Tensor& y);
/// Inputs weight, g. Each pixel adds its products over output channels in the order of a window's taps.
void device_input_backward(const Conv& c, const OpArgs& args, Tensor& dx);
/// Inputs x, g.
void device_weight_backward(const Conv& c, const OpArgs& args, Tensor& dw);

} // namespace eg::conv
