#pragma once
// Declares launches of right kernels, which .cu files define and tests compare with plain loops.

#include "core/cuda/gpu.h"

namespace eg::test {

/// e^x by additions, products and fused multiply-adds alone: the same bits from every compiler. Within 2 ULP.
__host__ __device__ inline float exp_by_fma(float x) {
  if (!(x >= -104.0F)) return x != x ? x : 0.0F;
  if (x > 88.73F) return x > 3e38F ? x : 1e38F * 10.0F;
  const float n = rintf(x * 1.44269504F);
  float r = fmaf(n, -0.693359375F, x);
  r = fmaf(n, 2.12194440e-4F, r);
  float p = 1.9875691500e-4F;
  p = fmaf(p, r, 1.3981999507e-3F);
  p = fmaf(p, r, 8.3334519073e-3F);
  p = fmaf(p, r, 4.1665795894e-2F);
  p = fmaf(p, r, 1.6666665459e-1F);
  p = fmaf(p, r, 5.0000001201e-1F);
  const float y = fmaf(p, r * r, r) + 1.0F;
  const int k = static_cast<int>(n), half = k / 2;
  const std::uint32_t a = static_cast<std::uint32_t>(half + 127) << 23;
  const std::uint32_t b = static_cast<std::uint32_t>(k - half + 127) << 23;
  float fa, fb;
  memcpy(&fa, &a, 4);
  memcpy(&fb, &b, 4);
  return y * fa * fb;
}

/// y[r, j] = e^x[r, j] / sum_k e^x[r, k], a block a row. threads: a multiple of 32.
void softmax(const float* x, float* y, int rows, int n, int threads, gpu::Stream stream = nullptr);

/// y = (x - mean) / sqrt(var + eps) * gamma + beta over rows of n, a warp a row.
void layer_norm(const float* x, const float* gamma, const float* beta, float* y, int rows, int n, float eps,
                gpu::Stream stream = nullptr);
/// dx, and sums[2, n]: dgamma, then dbeta. partial holds blocks * 2 * n numbers.
void layer_norm_backward(const float* x, const float* gamma, const float* g, float* dx, float* partial, float* sums,
                         int rows, int n, float eps, int blocks, gpu::Stream stream = nullptr);

/// The axes of two operands and a packed result, innermost last; strides of 0 repeat.
struct Walk {
  int rank = 0;
  long extent[4] = {1, 1, 1, 1};
  long stride[2][4] = {};
};
/// y = a + b.
void add(const Walk& walk, const float* a, const float* b, float* y, long count, gpu::Stream stream = nullptr);
/// Packed operands at multiples of 16 bytes, four numbers a thread.
void add_packed(const float* a, const float* b, float* y, long count4, gpu::Stream stream = nullptr);
/// The same in double, two numbers a thread.
void add_packed(const double* a, const double* b, double* y, long count2, gpu::Stream stream = nullptr);

/// c[m, n] = a[m, k] b[k, n], a chain of fused multiply-adds in the order of k. tile: 16, 32 or 64.
void matmul(const float* a, const float* b, float* c, int m, int n, int k, int tile, gpu::Stream stream = nullptr);

/// sums[ids[t], j] += round(g[t, j] * per_unit): whole numbers, whose sum has no order.
void scatter_add(const long* ids, const float* g, unsigned long long* sums, int tokens, int width, double per_unit,
                 gpu::Stream stream = nullptr);
/// out[i] = sums[i] * unit.
void scale(const unsigned long long* sums, float* out, long count, double unit, gpu::Stream stream = nullptr);

/// y[j, i] = x[i, j] for n a multiple of 32, by a padded tile in shared memory.
void transpose(const float* x, float* y, int n, gpu::Stream stream = nullptr);
/// The same by columns: a warp's writes are n numbers apart.
void transpose_by_columns(const float* x, float* y, int n, gpu::Stream stream = nullptr);
/// The same by a tile without padding: a warp's reads of it meet in one bank.
void transpose_unpadded(const float* x, float* y, int n, gpu::Stream stream = nullptr);

/// y[0..5] of each of 32 lanes: shuffles from a lane, by xor, down and up, a ballot, and any + 2 all. One warp.
void warp_words(const int* x, int* y, gpu::Stream stream = nullptr);

/// Three times: each of 32 numbers becomes the sum of its half of the warp, and its lane.
void half_warps(const int* x, int* y, gpu::Stream stream = nullptr);

} // namespace eg::test
