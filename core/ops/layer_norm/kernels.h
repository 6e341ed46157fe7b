#pragma once
// Declares the row kernels of layer_norm, rms_norm and their backward ops, and the jobs passed to them.

#include <cmath>
#include <cstdint>
#include <limits>

namespace eg {

namespace norm_kernels {

/// False for a mean of squares that left the range of T or came near its small end, where squares lose their digits
/// (|x| near 1e19 or 1e-19 in f32), and for NaN.
template <class T> constexpr bool keeps_digits(T square) {
  constexpr T least = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();
  return square >= least && square <= std::numeric_limits<T>::max();
}

/// y for `rows` packed rows of n elements; gamma and beta may be null.
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

} // namespace norm_kernels

/// y = (x - mean) rstd gamma + beta. T is float or double.
namespace layer_norm_kernels {
void run(const norm_kernels::Forward<float>& job);
void run(const norm_kernels::Forward<double>& job);
void run(const norm_kernels::Backward<float>& job);
void run(const norm_kernels::Backward<double>& job);
} // namespace layer_norm_kernels

/// y = x r gamma, r = 1 / sqrt(mean(x^2) + eps): beta and dbeta play no part.
namespace rms_norm_kernels {
void run(const norm_kernels::Forward<float>& job);
void run(const norm_kernels::Forward<double>& job);
void run(const norm_kernels::Backward<float>& job);
void run(const norm_kernels::Backward<double>& job);
} // namespace rms_norm_kernels

} // namespace eg
