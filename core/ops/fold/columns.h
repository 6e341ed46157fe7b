#pragma once
// Copies image planes to columns of windows, and adds the columns back; used by unfold, fold and convolution.

#include "core/ops/fold/windows.h"

namespace eg::windows {

/// Window rows [begin, end) of all columns.
struct Band {
  std::int64_t begin, end;
  std::int64_t rows() const { return end - begin; }
};

/// columns[(c, u, v), (i, j)] = x[c, first(i) + u d, first(j) + v d] (0 in the padding) for `channels` packed planes
/// and the windows of one band; packed, on the calling thread.
template <class T> void to_columns(const Axes& axes, Band band, std::int64_t channels, const T* x, T* columns);

/// The adjoint: x gains every column's element at the place it came from, in the order of (u, v), then (i, j).
template <class T> void add_columns(const Axes& axes, Band band, std::int64_t channels, const T* columns, T* x);

} // namespace eg::windows
