// Kernels of rows. Every sum has an order that does not depend on who comes first.

#include "kernels.h"

namespace eg::test {

namespace {

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Largest {
  __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};

__global__ void softmax_rows(const float* x, float* y, int n) {
  GPU_SHARED(room, float[32]);
  const float* row = x + static_cast<long>(blockIdx.x) * n;
  float* out = y + static_cast<long>(blockIdx.x) * n;
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  float largest = -3.4e38F;
  for (int j = first; j < n; j += step) largest = Largest{}(largest, row[j]);
  largest = gpu::block_reduce(largest, -3.4e38F, room, Largest{});
  float total = 0;
  for (int j = first; j < n; j += step) total += exp_by_fma(row[j] - largest);
  total = gpu::block_reduce(total, 0.0F, room, Sum{});
  const float factor = 1.0F / total;
  for (int j = first; j < n; j += step) out[j] = exp_by_fma(row[j] - largest) * factor;
}

__global__ void norm_rows(const float* x, const float* gamma, const float* beta, float* y, int rows, int n, float eps) {
  const int row = static_cast<int>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  if (row >= rows) return; // whole warps
  const int lane = static_cast<int>(threadIdx.x % 32);
  const float* from = x + static_cast<long>(row) * n;
  float* to = y + static_cast<long>(row) * n;
  float sum = 0;
  for (int j = lane; j < n; j += 32) sum += from[j];
  const float mean = gpu::warp_butterfly(sum, Sum{}) / static_cast<float>(n);
  float squares = 0;
  for (int j = lane; j < n; j += 32) squares = fmaf(from[j] - mean, from[j] - mean, squares);
  const float rstd = 1.0F / __fsqrt_rn(gpu::warp_butterfly(squares, Sum{}) / static_cast<float>(n) + eps);
  for (int j = lane; j < n; j += 32) to[j] = fmaf((from[j] - mean) * rstd, gamma[j], beta[j]);
}

/// Rows go to warps in turn; the warps of a block are joined in order, the blocks by join_rows.
__global__ void norm_rows_backward(const float* x, const float* gamma, const float* g, float* dx, float* partial,
                                   int rows, int n, float eps) {
  float* sums = gpu::dynamic_shared<float>(); // [warps][2][n]
  const int warps = static_cast<int>(blockDim.x / 32), warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  float* own = sums + static_cast<long>(warp) * 2 * n;
  for (int j = lane; j < 2 * n; j += 32) own[j] = 0;
  __syncwarp();
  const float count = static_cast<float>(n);
  for (int row = static_cast<int>(blockIdx.x) * warps + warp; row < rows; row += static_cast<int>(gridDim.x) * warps) {
    const float* xr = x + static_cast<long>(row) * n;
    const float* gr = g + static_cast<long>(row) * n;
    float sum = 0;
    for (int j = lane; j < n; j += 32) sum += xr[j];
    const float mean = gpu::warp_butterfly(sum, Sum{}) / count;
    float squares = 0, gh = 0, gh_centred = 0;
    for (int j = lane; j < n; j += 32) {
      const float d = xr[j] - mean, h = gr[j] * gamma[j];
      squares = fmaf(d, d, squares);
      gh += h;
      gh_centred = fmaf(h, d, gh_centred);
    }
    const float rstd = 1.0F / __fsqrt_rn(gpu::warp_butterfly(squares, Sum{}) / count + eps);
    const float mean_gh = gpu::warp_butterfly(gh, Sum{}) / count;
    const float mean_gh_xh = gpu::warp_butterfly(gh_centred, Sum{}) * rstd / count;
    for (int j = lane; j < n; j += 32) {
      const float xh = (xr[j] - mean) * rstd, gj = gr[j];
      dx[static_cast<long>(row) * n + j] = rstd * (gj * gamma[j] - mean_gh - xh * mean_gh_xh);
      own[j] = fmaf(gj, xh, own[j]);
      own[n + j] += gj;
    }
  }
  __syncthreads();
  for (int j = static_cast<int>(threadIdx.x); j < 2 * n; j += static_cast<int>(blockDim.x)) {
    float total = 0;
    for (int w = 0; w < warps; ++w) total += sums[static_cast<long>(w) * 2 * n + j];
    partial[static_cast<long>(blockIdx.x) * 2 * n + j] = total;
  }
}

__global__ void join_rows(const float* partial, float* out, int rows, int n) {
  const int j = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (j >= n) return;
  float total = 0;
  for (int r = 0; r < rows; ++r) total += partial[static_cast<long>(r) * n + j];
  out[j] = total;
}

constexpr unsigned in_steps_of(int n, int step) { return static_cast<unsigned>((n + step - 1) / step); }

} // namespace

void softmax(const float* x, float* y, int rows, int n, int threads, gpu::Stream stream) {
  GPU_LAUNCH(softmax_rows, static_cast<unsigned>(rows), static_cast<unsigned>(threads), 0, stream, x, y, n);
}

void layer_norm(const float* x, const float* gamma, const float* beta, float* y, int rows, int n, float eps,
                gpu::Stream stream) {
  GPU_LAUNCH(norm_rows, in_steps_of(rows, 4), 128, 0, stream, x, gamma, beta, y, rows, n, eps);
}

void layer_norm_backward(const float* x, const float* gamma, const float* g, float* dx, float* partial, float* sums,
                         int rows, int n, float eps, int blocks, gpu::Stream stream) {
  constexpr int warps = 2;
  const std::size_t room = static_cast<std::size_t>(warps) * 2 * static_cast<std::size_t>(n) * sizeof(float);
  GPU_LAUNCH(norm_rows_backward, static_cast<unsigned>(blocks), warps * 32, room, stream, x, gamma, g, dx, partial,
             rows, n, eps);
  GPU_LAUNCH(join_rows, in_steps_of(2 * n, 64), 64, 0, stream, partial, sums, blocks, 2 * n);
}

} // namespace eg::test
