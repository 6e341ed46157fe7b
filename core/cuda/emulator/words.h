#pragma once
// Declares CUDA's words for a C++ compiler: built-in variables, barriers, shuffles, atomics and vector types.
// Kernels include core/cuda/gpu.h, which includes this file where nvcc does not compile.

#include "core/cuda/emulator/running.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

using dim3 = eg::emulator::Extent;
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

using std::max;
using std::memcpy;
using std::min;

#define threadIdx (::eg::emulator::thread_index())
#define blockIdx (::eg::emulator::block_index())
#define blockDim (::eg::emulator::block_extent())
#define gridDim (::eg::emulator::grid_extent())
inline constexpr int warpSize = 32;

EG_UNSEEN void __syncthreads(EG_EMULATOR_HERE) { eg::emulator::block_barrier({"__syncthreads", file, line}); }
EG_UNSEEN void __syncwarp(unsigned mask = eg::emulator::whole_warp, EG_EMULATOR_HERE) {
  eg::emulator::warp_meet({.mask = mask, .orders_memory = true}, nullptr, nullptr, {"__syncwarp", file, line});
}
EG_UNSEEN void __threadfence() {}
EG_UNSEEN void __threadfence_block() {}

template <class T> EG_UNSEEN T __shfl_sync(unsigned mask, T value, int from, EG_EMULATOR_HERE) {
  return eg::emulator::exchange(mask, value, static_cast<unsigned>(from) & 31U, {"__shfl_sync", file, line});
}
template <class T> EG_UNSEEN T __shfl_xor_sync(unsigned mask, T value, int bits, EG_EMULATOR_HERE) {
  return eg::emulator::exchange(mask, value, eg::emulator::lane() ^ static_cast<unsigned>(bits),
                                {"__shfl_xor_sync", file, line});
}
template <class T> EG_UNSEEN T __shfl_down_sync(unsigned mask, T value, unsigned by, EG_EMULATOR_HERE) {
  const unsigned lane = eg::emulator::lane();
  return eg::emulator::exchange(mask, value, lane + by < 32 ? lane + by : lane, {"__shfl_down_sync", file, line});
}
template <class T> EG_UNSEEN T __shfl_up_sync(unsigned mask, T value, unsigned by, EG_EMULATOR_HERE) {
  const unsigned lane = eg::emulator::lane();
  return eg::emulator::exchange(mask, value, lane >= by ? lane - by : lane, {"__shfl_up_sync", file, line});
}
EG_UNSEEN unsigned __ballot_sync(unsigned mask, int predicate, EG_EMULATOR_HERE) {
  return eg::emulator::ballot(mask, predicate != 0, {"__ballot_sync", file, line});
}
EG_UNSEEN int __any_sync(unsigned mask, int predicate, EG_EMULATOR_HERE) {
  return static_cast<int>(eg::emulator::ballot(mask, predicate != 0, {"__any_sync", file, line}) != 0);
}
EG_UNSEEN int __all_sync(unsigned mask, int predicate, EG_EMULATOR_HERE) {
  return static_cast<int>(eg::emulator::ballot(mask, predicate != 0, {"__all_sync", file, line}) == mask);
}

template <class T> EG_ACCESS T atomicAdd(T* to, std::type_identity_t<T> value, EG_EMULATOR_HERE) {
  return eg::emulator::atomic(to, [&](T x) { return static_cast<T>(x + value); }, EG_CALLER, {"atomicAdd", file, line});
}
template <class T> EG_ACCESS T atomicMax(T* to, std::type_identity_t<T> value, EG_EMULATOR_HERE) {
  return eg::emulator::atomic(to, [&](T x) { return x < value ? value : x; }, EG_CALLER, {"atomicMax", file, line});
}
template <class T> EG_ACCESS T atomicMin(T* to, std::type_identity_t<T> value, EG_EMULATOR_HERE) {
  return eg::emulator::atomic(to, [&](T x) { return value < x ? value : x; }, EG_CALLER, {"atomicMin", file, line});
}
template <class T> EG_ACCESS T atomicOr(T* to, std::type_identity_t<T> value, EG_EMULATOR_HERE) {
  return eg::emulator::atomic(to, [&](T x) { return static_cast<T>(x | value); }, EG_CALLER, {"atomicOr", file, line});
}
template <class T> EG_ACCESS T atomicAnd(T* to, std::type_identity_t<T> value, EG_EMULATOR_HERE) {
  return eg::emulator::atomic(to, [&](T x) { return static_cast<T>(x & value); }, EG_CALLER, {"atomicAnd", file, line});
}
template <class T> EG_ACCESS T atomicExch(T* to, std::type_identity_t<T> value, EG_EMULATOR_HERE) {
  return eg::emulator::atomic(to, [&](T) { return value; }, EG_CALLER, {"atomicExch", file, line});
}
template <class T>
EG_ACCESS T atomicCAS(T* to, std::type_identity_t<T> expected, std::type_identity_t<T> value, EG_EMULATOR_HERE) {
  return eg::emulator::atomic(to, [&](T x) { return x == expected ? value : x; }, EG_CALLER, {"atomicCAS", file, line});
}

template <class T> inline T __ldg(const T* from) { return *from; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0F / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
// NOLINTEND(bugprone-reserved-identifier)

#define EG_GPU_HERE , EG_EMULATOR_HERE
#define EG_GPU_PASS , file, line
#define EG_GPU_PLACE file, line

#define GPU_UNROLL
#define GPU_SHARED(NAME, ...)                                                                                          \
  struct NAME##_tag;                                                                                                   \
  auto& NAME = ::eg::emulator::shared<NAME##_tag, __VA_ARGS__>(#NAME, {"GPU_SHARED", __FILE__, __LINE__})

namespace eg::gpu {

using Stream = emulator::Stream*;

template <class T> EG_UNSEEN T* dynamic_shared(EG_EMULATOR_HERE) {
  return static_cast<T*>(emulator::dynamic_shared({"dynamic_shared", file, line}));
}

/// The same additions as on a device, in one meeting instead of five.
template <class T, class F> EG_UNSEEN T warp_butterfly(T x, F join, EG_EMULATOR_HERE) {
  T result;
  emulator::warp_meet({.mask = emulator::whole_warp,
                       .finish =
                           [](std::byte* const* results, const std::byte* const* deposits, unsigned, void* how) {
                             T a[32], b[32];
                             for (int i = 0; i < 32; ++i) std::memcpy(&a[i], deposits[i], sizeof(T));
                             for (int step = 16; step > 0; step /= 2) {
                               for (int i = 0; i < 32; ++i) b[i] = (*static_cast<F*>(how))(a[i], a[i ^ step]);
                               std::memcpy(a, b, sizeof a);
                             }
                             for (int i = 0; i < 32; ++i) std::memcpy(results[i], &a[i], sizeof(T));
                           },
                       .extra = &join},
                      &x, &result, {"warp_butterfly", file, line});
  return result;
}

EG_ACCESS float4 load4(const float* from, EG_EMULATOR_HERE) {
  emulator::note(from, 16, emulator::Access::read, EG_CALLER, {"load4", file, line});
  return {from[0], from[1], from[2], from[3]};
}
EG_ACCESS void store4(float* to, float4 x, EG_EMULATOR_HERE) {
  emulator::note(to, 16, emulator::Access::write, EG_CALLER, {"store4", file, line});
  to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
}
EG_ACCESS double2 load2(const double* from, EG_EMULATOR_HERE) {
  emulator::note(from, 16, emulator::Access::read, EG_CALLER, {"load2", file, line});
  return {from[0], from[1]};
}
EG_ACCESS void store2(double* to, double2 x, EG_EMULATOR_HERE) {
  emulator::note(to, 16, emulator::Access::write, EG_CALLER, {"store2", file, line});
  to[0] = x.x, to[1] = x.y;
}

template <class... P, class... A>
void launch(const emulator::Place& place, void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared,
            Stream stream, A&&... arguments) {
  using Call = emulator::Call<P...>;
  const Call call{kernel, {static_cast<P>(arguments)...}};
  const emulator::Launch what{place, grid, block, shared, &Call::enter, sizeof call};
  emulator::check(what);
  emulator::enqueue(stream, [what, call] { emulator::run(what, &call); });
}

} // namespace eg::gpu
