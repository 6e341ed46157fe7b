// Kernels that scripts/check_cuda.py must refuse. It compiles them with fused products and few registers; nothing else
// contains them.

/// ptxas may fuse what does not say how it rounds.
__global__ void sums_without_rounding(const float* x, const double* y, float* to, double* too) {
  to[0] = x[0] + x[1];
  too[0] = y[0] * y[1];
}

/// More numbers than registers.
__global__ void spilling(const double* x, double* y) {
  double kept[40];
#pragma unroll
  for (int i = 0; i < 40; ++i) kept[i] = x[i * blockDim.x + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 40; ++i) y[i * blockDim.x + threadIdx.x] = kept[39 - i] * kept[i];
}

/// An array whose index is known at run time alone.
__global__ void indexed(const int* which, const int* x, int* y) {
  int kept[64] = {};
  for (int i = 0; i < 64; ++i) kept[which[i] % 64] += x[i];
  for (int i = 0; i < 64; ++i) y[i] = kept[which[64 + i] % 64];
}
