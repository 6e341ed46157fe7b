#pragma once
// Declares the kernels of the three products of a convolution. All pointers are packed; outputs need not be
// initialised.

#include "core/ops/conv/geometry.h"

namespace eg::conv {

/// y = x * w + bias (may be null).
template <class T> void forward(const Conv& c, const T* x, const T* w, const T* bias, T* y);
/// dx, the adjoint in x.
template <class T> void input_backward(const Conv& c, const T* w, const T* g, T* dx);
/// dw, the adjoint in w.
template <class T> void weight_backward(const Conv& c, const T* x, const T* g, T* dw);

/// Whether the functions below are the faster ones: several groups of few channels.
bool suits_direct(const Conv& c);
/// Whether direct_forward is: also one group of more channels, whose windows overlap and fill vectors.
bool suits_direct_forward(const Conv& c);
/// The same without products of matrices.
template <class T> void direct_forward(const Conv& c, const T* x, const T* w, const T* bias, T* y);
template <class T> void direct_input_backward(const Conv& c, const T* w, const T* g, T* dx);
template <class T> void direct_weight_backward(const Conv& c, const T* x, const T* g, T* dw);

} // namespace eg::conv
