// The instructions of AMX, and the kernels of tile_kernels.h made of them. They stand here as assembly: the intrinsics
// of GCC 12 do not say that a load reads memory, so that what was written before may be written after it.

#include "core/gemm/amx_kernels.h"

#include "core/base/error.h"
#include "core/gemm/tile_kernels.h"

#include <chrono>

namespace eg::gemm::amx {

#if defined(__x86_64__)
namespace {

// Every processor with AMX has these; what is inlined into such a function is compiled for them.
#define EG_AMX __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma,amx-tile,amx-bf16,amx-int8"), noinline))

/// The policy of tiles.h on the processor.
struct Registers {
  EG_TILE_INLINE static void configure(const tiles::Configuration& c) { asm volatile("ldtilecfg %0" ::"m"(c)); }
  EG_TILE_INLINE static void release() { asm volatile("tilerelease" ::: "memory"); }
  template <int T> EG_TILE_INLINE static void zero() { asm volatile("tilezero %%tmm%c0" ::"i"(T)); }
  template <int T> EG_TILE_INLINE static void load(const void* from, std::size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
  }
  template <int T> EG_TILE_INLINE static void store(void* to, std::size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(T) : "memory");
  }
  template <bool whole_numbers, int C, int A, int B> EG_TILE_INLINE static void add_products() {
    if constexpr (whole_numbers)
      asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
    else
      asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};

/// As Registers, for Configured: a function of its own that is compiled for tiles.
struct OnThread {
  EG_AMX static void configure(const tiles::Configuration& c) { Registers::configure(c); }
  EG_AMX static void release() { Registers::release(); }
};

struct Bf16Kernel : tiles::Bf16KernelBase<OnThread> {
  EG_AMX static void pack_along(const float* x, std::int64_t ld, const Panels& panels, tiles::Line* out) {
    tiles::pack_bf16<true>(x, ld, panels, out);
  }
  EG_AMX static void pack_across(const float* x, std::int64_t ld, const Panels& panels, tiles::Line* out) {
    tiles::pack_bf16<false>(x, ld, panels, out);
  }
  template <bool transposed>
  EG_AMX static void multiply(std::int64_t rows, std::int64_t steps, const Left<tiles::Line>& left,
                              const tiles::Line* right, const Target<float>& target, std::int64_t columns) {
    static_assert(!transposed, "both operands are packed: nothing is won by changing their places");
    tiles::multiply_bf16<Registers>(rows, steps, left.data, right, target, columns);
  }
};

/// `count` products of whole registers in four chains.
EG_AMX void chains(std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 4) {
    Registers::add_products<false, 0, 4, 6>();
    Registers::add_products<false, 1, 4, 7>();
    Registers::add_products<false, 2, 5, 6>();
    Registers::add_products<false, 3, 5, 7>();
  }
}

} // namespace

void product_bf16(const Product<float>& p, FunctionRef<void(const blas::Tile&)> after) {
  Run<Bf16Kernel, false>(p, after)();
}

EG_AMX void multiply_int8(std::int64_t steps, const tiles::Line* left, const tiles::Line* right, std::int64_t rows,
                          std::int64_t columns, std::int32_t* sums) {
  tiles::multiply<Registers, true>(steps, left, right, columns > tiles::most_rows ? tiles::side : tiles::most_rows,
                                   rows, columns, sums);
}

void with_tiles(FunctionRef<void()> work) {
  const tiles::Configured<OnThread> configured;
  work();
}

double bf16_rate() {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t count = 1024, turns = 6, in_each = 16 * 16 * 32;
  const tiles::Configured<OnThread> configured; // which sets the registers to zero
  double best = 0;
  for (std::int64_t turn = 0; turn < turns; ++turn) { // the best: other work on the machine only slows
    const auto begin = Clock::now();
    chains(count);
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
    best = std::max(best, static_cast<double>(count * in_each) / std::max(ns, 1.0));
  }
  return best;
}

#else

void product_bf16(const Product<float>&, FunctionRef<void(const blas::Tile&)>) {
  throw Error("gemm: this processor has no AMX");
}
void multiply_int8(std::int64_t, const tiles::Line*, const tiles::Line*, std::int64_t, std::int64_t, std::int32_t*) {
  throw Error("gemm: this processor has no AMX");
}
void with_tiles(FunctionRef<void()>) { throw Error("gemm: this processor has no AMX"); }
double bf16_rate() { return 0; }

#endif

} // namespace eg::gemm::amx
