#pragma once
// Initialisers: fill a tensor in place from a counter-based key.

#include "core/random.h"

namespace eg::nn::init {

/// Normal(0, stddev) cut off at +-2 stddev (redrawn by inverse distribution function).
void trunc_normal(Tensor& x, double stddev, RandomKey key);
/// Uniform in +-gain sqrt(6 / (fan_in + fan_out)); x is [out, in].
void xavier_uniform(Tensor& x, RandomKey key, double gain = 1.0);
/// Uniform in +-sqrt(6 / ((1 + a^2) fan_in)); x is [out, in].
void kaiming_uniform(Tensor& x, RandomKey key, double a = 2.23606797749979);
void normal(Tensor& x, double stddev, RandomKey key);
void constant(Tensor& x, double value);

} // namespace eg::nn::init
