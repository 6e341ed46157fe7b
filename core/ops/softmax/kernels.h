#pragma once
// Declares the row kernels of softmax, log_softmax and their backward ops, and the loop that applies them along any
// axis.

#include "core/ops/row_tools.h"

#include <cstdint>

namespace eg::softmax_kernels {

/// A kernel over `rows` packed rows of n elements: out from one or two inputs (b is null for the forward kernels).
template <class T> using RowsKernel = void (*)(const T* a, const T* b, T* out, std::int64_t rows, std::int64_t n);

template <class T> struct Kernels {
  static void softmax(const T* x, const T*, T* y, std::int64_t rows, std::int64_t n);
  static void softmax_backward(const T* y, const T* g, T* gx, std::int64_t rows, std::int64_t n);
  static void log_softmax(const T* x, const T*, T* y, std::int64_t rows, std::int64_t n);
  static void log_softmax_backward(const T* y, const T* g, T* gx, std::int64_t rows, std::int64_t n);
};

/// Runs the kernel along the axis on all threads. Rows of the last axis are used in place; others are gathered
/// into scratch, so that a value does not depend on the layout. `a` and `b` are packed; b may be undefined.
template <class T> void along_axis(RowsKernel<T> kernel, const AxisSplit& split, const T* a, const T* b, T* out);

} // namespace eg::softmax_kernels
