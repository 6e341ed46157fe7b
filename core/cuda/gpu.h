#pragma once
// Defines the language of kernels, which nvcc compiles for GPUs and any C++20 compiler for the emulator.
// Kernels use CUDA's own names (threadIdx, __syncthreads, __shfl_xor_sync, atomicAdd, float4 ...). For syntax that a
// C++ compiler does not know there are macros:
//
//   GPU_SHARED(NAME, TYPE)              __shared__ TYPE NAME
//   gpu::dynamic_shared<T>()            extern __shared__
//   GPU_LAUNCH(KERNEL, grid, block, dynamic shared bytes, stream, arguments ...)      KERNEL<<<...>>>(...)
//   GPU_UNROLL                          #pragma unroll
//   GPU_INLINE                          before a kernel in a header that is no template
//   EG_DEVICE_FUNCTION                  before a function that the host and kernels call: __host__ __device__
//
// No other file asks which compiler it is.

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)

#include <cstring>
#include <cuda_runtime.h>
#include <stdexcept>
#include <string>
#include <type_traits>

#define GPU_UNROLL _Pragma("unroll")
#define GPU_INLINE static
#define EG_DEVICE_FUNCTION __host__ __device__
#define GPU_SHARED(NAME, ...)                                                                                          \
  using NAME##_type = __VA_ARGS__;                                                                                     \
  __shared__ NAME##_type NAME
#define EG_GPU_HERE
#define EG_GPU_PASS
#define EG_GPU_PLACE

namespace eg::gpu {

using Stream = cudaStream_t;

/// Names the kernel and the source line of a launch.
struct Place {
  const char* kernel;
  const char* file;
  int line;
};

/// Returns the dynamic shared memory of the launch, at a multiple of 16 bytes.
template <class T> __device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
}

/// Joins x of all 32 lanes pairwise: lanes 16 apart, then 8, 4, 2, 1. Every lane gets the same bits where the join is
/// commutative.
template <class T, class F> __device__ __forceinline__ T warp_butterfly(T x, F join) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    if constexpr (std::is_arithmetic_v<T>) {
      x = join(x, __shfl_xor_sync(0xffffffffU, x, step));
    } else { // a structure goes word by word
      static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(unsigned) == 0);
      unsigned words[sizeof(T) / sizeof(unsigned)];
      memcpy(words, &x, sizeof x);
#pragma unroll
      for (unsigned& word : words) word = __shfl_xor_sync(0xffffffffU, word, step);
      T other = x;
      memcpy(&other, words, sizeof other);
      x = join(x, other);
    }
  }
  return x;
}

/// Move 16 bytes at once. The address must be a multiple of 16.
__device__ __forceinline__ float4 load4(const float* from) { return *reinterpret_cast<const float4*>(from); }
__device__ __forceinline__ void store4(float* to, float4 x) { *reinterpret_cast<float4*>(to) = x; }
__device__ __forceinline__ double2 load2(const double* from) { return *reinterpret_cast<const double2*>(from); }
__device__ __forceinline__ void store2(double* to, double2 x) { *reinterpret_cast<double2*>(to) = x; }

/// Queues the kernel. Throws std::runtime_error where CUDA refuses the launch.
template <class... P, class... A>
void launch(const Place& place, void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared, Stream stream,
            A&&... arguments) {
  cudaError_t error = cudaSuccess;
  if (shared > 48 * 1024) // more must be asked for
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
  if (error == cudaSuccess) {
    kernel<<<grid, block, shared, stream>>>(static_cast<P>(arguments)...);
    error = cudaGetLastError();
  }
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(place.kernel) + ": launch at " + place.file + ":" +
                             std::to_string(place.line) + ": " + cudaGetErrorString(error));
}

} // namespace eg::gpu

#else
#include "core/cuda/emulator/words.h"
#define GPU_INLINE inline
#define EG_DEVICE_FUNCTION
#endif

#define GPU_LAUNCH(KERNEL, ...) ::eg::gpu::launch({#KERNEL, __FILE__, __LINE__}, KERNEL, __VA_ARGS__)

namespace eg::gpu {

inline constexpr unsigned warp_size = 32;

/// Joins x of all threads of a block. The order depends on the number of threads alone, and every thread gets the same
/// bits. The block must consist of whole warps, all threads must call this, and `none` must be neutral in the join.
/// `room` is shared memory for one value of each warp; it may be used again afterwards.
template <class T, class F> __device__ inline T block_reduce(T x, T none, T* room, F join EG_GPU_HERE) {
  x = warp_butterfly(x, join EG_GPU_PASS);
  const unsigned warps = blockDim.x * blockDim.y * blockDim.z / warp_size;
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned lane = thread % warp_size;
  if (lane == 0) room[thread / warp_size] = x;
  __syncthreads(EG_GPU_PLACE);
  x = warp_butterfly(lane < warps ? room[lane] : none, join EG_GPU_PASS);
  __syncthreads(EG_GPU_PLACE); // room may be written again
  return x;
}

} // namespace eg::gpu
