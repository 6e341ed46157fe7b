#pragma once
// Row kernels of layer_norm and layer_norm_backward.

#include <cstdint>

namespace eg::layer_norm_kernels {

/// y = (x - mean) rstd gamma + beta for `rows` packed rows of n elements; gamma and beta may be null.
template <class T> struct Forward {
  const T* x;
  const T* gamma;
  const T* beta;
  T* y;
  std::int64_t rows, n;
  T eps;
};

/// dx for `rows` packed rows; dgamma and dbeta (may be null) gain the sums over these rows. gamma may be null.
template <class T> struct Backward {
  const T* x;
  const T* gamma;
  const T* g;
  T* dx;
  T* dgamma;
  T* dbeta;
  std::int64_t rows, n;
  T eps;
};

void run(const Forward<float>& job);
void run(const Forward<double>& job);
void run(const Backward<float>& job);
void run(const Backward<double>& job);

} // namespace eg::layer_norm_kernels
