#pragma once
// Declares the kernels of Huber's function and of its slope on the calling thread.

#include "core/ops/loss/huber.h"

#include <cstdint>

namespace eg {

/// y[i] = huber_of(x[i], beta) for i < n, computed in double and rounded once.
void huber_of(const float* x, float* y, std::int64_t n, double beta);
void huber_of(const double* x, double* y, std::int64_t n, double beta);
/// y[i] = huber_slope_of(x[i], beta), alike.
void huber_slope_of(const float* x, float* y, std::int64_t n, double beta);
void huber_slope_of(const double* x, double* y, std::int64_t n, double beta);

} // namespace eg
