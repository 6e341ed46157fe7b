#pragma once
// Declares CUDA's words for a C++ compiler: built-in variables, barriers, shuffles, atomics and vector types.
// Kernels include core/cuda/gpu.h, which includes this file where nvcc does not compile.

#include "core/cuda/emulator/emulator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

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

// What the hooks do not look at; in the checked build such functions are not inlined.
#define EG_UNSEEN __attribute__((no_sanitize("thread"))) inline
// Functions whose caller is the code that accesses memory.
#if defined(EG_EMULATOR_CHECKED)
#define EG_ACCESS __attribute__((no_sanitize("thread"), noinline)) inline
#define EG_CALLER __builtin_return_address(0)
#else
#define EG_ACCESS EG_UNSEEN
#define EG_CALLER nullptr
#endif

namespace eg::emulator {

struct Fiber;

/// One thread of the block that runs.
struct Thread {
  Extent index;
  unsigned linear = 0, lane = 0, warp = 0;
  Fiber* fiber = nullptr;
  Place place; ///< where it waits
};

/// What a kernel may read of the emulator.
struct Running {
  Thread* thread = nullptr;
  Extent block, block_extent, grid;
  bool seeing = false; ///< a kernel's own code runs, and its accesses count
};
extern Running* const running __attribute__((visibility("hidden")));

/// Waits for every thread of the block.
void block_barrier(const Place& place);

/// Computes everybody's result from what the lanes of `mask` deposited.
using Finish = void (*)(std::byte* const* results, const std::byte* const* deposits, unsigned mask, void* extra);
struct Meeting {
  unsigned mask = 0;
  Finish finish = nullptr;
  void* extra = nullptr;
  bool orders_memory = false; ///< what was written before is seen after it
};
/// Waits for every lane of the mask; the last one to come calls `finish`.
void warp_meet(const Meeting& meeting, const void* deposit, void* result, const Place& place);

/// The array of this block that `tag` stands for.
void* shared_array(const void* tag, const char* name, std::size_t bytes, std::size_t alignment, const Place& place);
void* dynamic_shared(const Place& place);

enum class Access : std::uint8_t { read, write, atomic, float_atomic };
/// Checks an access that the hooks do not see. Without hooks the alignment alone.
void note(const void* address, std::size_t size, Access access, const void* caller, const Place& place);

void accuse(const std::string& words, const Place& place);
[[noreturn]] void leave_kernel();
/// Ends the kernel with an Error, whose words `make` gives: nothing that owns memory may live where it is called.
template <class Make> [[noreturn]] void fail(Make make, const Place& place) {
  accuse(make(), place);
  leave_kernel();
}

EG_UNSEEN Extent thread_index() { return running->thread->index; }
EG_UNSEEN Extent block_index() { return running->block; }
EG_UNSEEN Extent block_extent() { return running->block_extent; }
EG_UNSEEN Extent grid_extent() { return running->grid; }
EG_UNSEEN unsigned lane() { return running->thread->lane; }

inline constexpr unsigned whole_warp = 0xffffffffU;

/// Every lane gives a value and takes that of lane `from`.
template <class T> EG_UNSEEN T exchange(unsigned mask, T value, unsigned from, const Place& place) {
  static_assert(std::is_trivially_copyable_v<T>);
  struct Deposit {
    T value;
    unsigned from;
    const Place* place;
  };
  const Deposit mine{value, from, &place};
  T result;
  warp_meet({.mask = mask,
             .finish =
                 [](std::byte* const* results, const std::byte* const* deposits, unsigned who, void*) {
                   for (unsigned at = 0; at < 32; ++at) {
                     if ((who >> at & 1U) == 0) continue;
                     Deposit own, other;
                     std::memcpy(&own, deposits[at], sizeof own);
                     if ((who >> (own.from & 31U) & 1U) == 0)
                       fail(
                           [&] {
                             return "lane " + std::to_string(at) + " reads lane " + std::to_string(own.from & 31U) +
                                    ", which takes no part";
                           },
                           *own.place);
                     std::memcpy(&other, deposits[own.from & 31U], sizeof other);
                     std::memcpy(results[at], &other.value, sizeof(T));
                   }
                 }},
            &mine, &result, place);
  return result;
}

EG_UNSEEN unsigned ballot(unsigned mask, bool predicate, const Place& place) {
  unsigned result = 0;
  warp_meet({.mask = mask,
             .finish =
                 [](std::byte* const* results, const std::byte* const* deposits, unsigned who, void*) {
                   unsigned votes = 0;
                   for (unsigned at = 0; at < 32; ++at)
                     if ((who >> at & 1U) != 0 && deposits[at][0] != std::byte{0}) votes |= 1U << at;
                   for (unsigned at = 0; at < 32; ++at)
                     if ((who >> at & 1U) != 0) std::memcpy(results[at], &votes, sizeof votes);
                 }},
            &predicate, &result, place);
  return result;
}

/// Replaces *to by next(*to) and returns what was there.
template <class T, class F> EG_UNSEEN T atomic(T* to, F next, const void* caller, const Place& place) {
  note(to, sizeof(T), std::is_floating_point_v<T> ? Access::float_atomic : Access::atomic, caller, place);
  const T before = *to;
  *to = next(before);
  return before;
}

} // namespace eg::emulator

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

namespace eg::emulator {

template <class Tag> inline constexpr char shared_tag = 0;

template <class Tag, class T> EG_UNSEEN T& shared(const char* name, const Place& place) {
  static_assert(std::is_trivially_default_constructible_v<T>, "shared memory holds no objects with constructors");
  return *static_cast<T*>(shared_array(&shared_tag<Tag>, name, sizeof(T), alignof(T), place));
}

/// A kernel and its arguments. What runs before the kernel's own code is hidden from the hooks.
template <class... P> struct Call {
  static_assert((std::is_trivially_copyable_v<P> && ...), "arguments of a kernel are copied byte by byte");
  void (*kernel)(P...);
  std::tuple<P...> parameters;
  template <std::size_t... I> EG_UNSEEN static void with(const Call& self, std::index_sequence<I...>) {
    self.kernel(std::get<I>(self.parameters)...);
  }
  EG_UNSEEN static void enter(const void* self) {
    with(*static_cast<const Call*>(self), std::index_sequence_for<P...>());
  }
};

} // namespace eg::emulator

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
