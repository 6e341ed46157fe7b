#pragma once
// Defines the arguments of the device kernels of interpolate.

#include "core/dtype.h"

#include <cstdint>

namespace eg::device {

/// resample::Matrix in device memory: row i has the weights start[i] .. start[i + 1] for the columns from first[i] on.
struct ResampleMatrix {
  std::int64_t rows, columns;
  const std::int64_t *first, *start;
  const double* weights;
};

/// y = rows x columns^T for every plane, through the columns first. Packed; f32 or f64, sums in double.
struct ResampleJob {
  DType type;
  void* y;
  const void* x;
  double* half_way; ///< scratch: [planes, rows.columns, columns.rows]
  std::int64_t planes;
  ResampleMatrix rows, columns;
};

} // namespace eg::device
