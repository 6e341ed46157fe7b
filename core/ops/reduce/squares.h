#pragma once
// Adds squares of doubles on devices without overflow and without losing small ones.

#include "core/cuda/gpu.h"

#include <cmath>

namespace eg::cuda {

/// A sum of squares in three parts by the size of the terms (Blue, "A portable Fortran program to find the Euclidean
/// norm of a vector", 1978). Squares of floats are doubles: the middle part alone would do for them.
struct SquareSum {
  static constexpr double large = 0x1p486, small = 0x1p-511;
  static constexpr double to_large = 0x1p-538, to_small = 0x1p537;
  double big = 0, middle = 0, tiny = 0;

  __device__ void take(double x) {
    const double size = fabs(x);
    if (size > large) {
      big += (x * to_large) * (x * to_large);
    } else if (size < small) {
      tiny += (x * to_small) * (x * to_small);
    } else {
      middle += x * x;
    }
  }
  __device__ static SquareSum join(const SquareSum& a, const SquareSum& b) {
    SquareSum c;
    c.big = a.big + b.big;
    c.middle = a.middle + b.middle;
    c.tiny = a.tiny + b.tiny;
    return c;
  }
  /// scale^2 sum is the total; scale is a power of two.
  __device__ void total(double& scale, double& sum) const {
    if (big > 0) {
      scale = 0x1p538;
      sum = big + middle * to_large * to_large;
    } else if (tiny > 0 && middle == 0) {
      scale = 0x1p-537;
      sum = tiny;
    } else {
      scale = 1;
      sum = middle + tiny * 0x1p-537 * 0x1p-537;
    }
  }
};

} // namespace eg::cuda
