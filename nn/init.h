#pragma once
// Initialises a tensor in place from a counter-based key. Element i depends on (key, i) alone; the f32 numbers are the
// f64 ones rounded.

#include "core/random.h"

namespace eg::nn::init {

/// While it lives, the random initialisers of this thread leave tensors as they are: for modules whose every parameter
/// is read from a file right after they are made.
class SkipScope {
public:
  SkipScope();
  ~SkipScope();
  SkipScope(const SkipScope&) = delete;
  SkipScope& operator=(const SkipScope&) = delete;
};

/// A SkipScope of this thread lives.
bool skipping();

/// Normal(0, stddev) cut off at +-2 stddev, by the inverse of the normal distribution function. f32 or f64.
void trunc_normal(Tensor& x, double stddev, RandomKey key);
/// Uniform in +-gain sqrt(6 / (fan_in + fan_out)); x is [out, in]. Glorot and Bengio, AISTATS 2010.
void xavier_uniform(Tensor& x, RandomKey key, double gain = 1.0);
/// Normal(0, gain sqrt(2 / (fan_in + fan_out))); x is [out, in].
void xavier_normal(Tensor& x, RandomKey key, double gain = 1.0);
/// Uniform in +-sqrt(6 / ((1 + a^2) fan_in)); x is [out, in]. He et al., ICCV 2015; a = sqrt(5) gives +-1/sqrt(fan_in).
void kaiming_uniform(Tensor& x, RandomKey key, double a = 2.23606797749979);
/// Normal(0, sqrt(2 / ((1 + a^2) fan_in))); x is [out, in].
void kaiming_normal(Tensor& x, RandomKey key, double a = 0.0);
/// Uniform in [low, high).
void uniform(Tensor& x, double low, double high, RandomKey key);
void normal(Tensor& x, double stddev, RandomKey key);
void constant(Tensor& x, double value);

/// z with Phi(z) = p, p in (0, 1), to about 1e-15 (Wichura, algorithm AS 241, Applied Statistics 37, 1988).
/// Throws ValueError outside.
double inverse_normal_cdf(double p);

} // namespace eg::nn::init
