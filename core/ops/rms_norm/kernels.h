#pragma once
// Row kernels of rms_norm and rms_norm_backward.

#include <cstdint>

namespace eg::rms_norm_kernels {

/// y = x r gamma, r = 1 / sqrt(mean(x^2) + eps), for `rows` packed rows of n elements; gamma may be null.
template <class T> struct Forward {
  const T* x;
  const T* gamma;
  T* y;
  std::int64_t rows, n;
  T eps;
};

/// dx for `rows` packed rows; dgamma (may be null) gains the sums over these rows. gamma may be null.
template <class T> struct Backward {
  const T* x;
  const T* gamma;
  const T* g;
  T* dx;
  T* dgamma;
  std::int64_t rows, n;
  T eps;
};

void run(const Forward<float>& job);
void run(const Forward<double>& job);
void run(const Backward<float>& job);
void run(const Backward<double>& job);

} // namespace eg::rms_norm_kernels
