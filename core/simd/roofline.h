#pragma once
// Measures the machine's peak rates, the roofline that times are compared with (Williams, Waterman, Patterson,
// "Roofline: an insightful visual performance model", 2009).

#include "core/op.h"

namespace eg {

/// Peaks of all threads in use.
struct Roofline {
  double gflops_f32 = 0; ///< fused multiply-adds in registers, 10^9 flops a second
  double gflops_f64 = 0;
  double gb_per_s = 0; ///< copying between arrays far larger than L2: 10^9 bytes read or written a second

  /// Least time that the work takes, ms: the longer of computing and moving.
  double least_ms(const Work& work, DType dtype) const;
};

/// Measures for about 0.2 s; needs 128 MiB for that long. On a shared machine the figures move with the others' load.
Roofline measure_roofline();

} // namespace eg
