// Wrong kernels that nvcc notices itself; marked as in planted.cu.

#include "planted.h"

namespace eg::test::planted {

namespace {

__device__ inline int thread() { return static_cast<int>(threadIdx.x); }

__constant__ float table[4] = {1, 2, 3, 4};
__device__ inline float* writable(const float* at) {
  return const_cast<float*>(at);
} // nvcc refuses it in one expression
__global__ void writes_constant_kernel(const float* x, float* y) {
  writable(table)[thread()] = x[thread()]; // WRONG writes_constant
  y[thread()] = table[thread()];
}

__global__ void too_much_static_kernel(const float* x, float* y) {
  GPU_SHARED(room, float[12289]); // WRONG too_much_static
  room[thread()] = x[thread()];
  y[thread()] = room[thread()];
}

} // namespace

void writes_constant(const float* x, float* y, int) { GPU_LAUNCH(writes_constant_kernel, 1, 4, 0, nullptr, x, y); }
void too_much_static(const float* x, float* y, int) { GPU_LAUNCH(too_much_static_kernel, 1, 32, 0, nullptr, x, y); }

} // namespace eg::test::planted
