// Products by AVX512-BF16, and which instruction is used. 12 x 32 of C in registers: 24 sums of 16, two vectors of the
// right operand. Both operands are packed into panels of 32-bit elements, each two terms of k rounded to bf16. The file
// is compiled for the baseline; its vector functions name what they need and run only where the processor has it.

#include "core/gemm/gemm_bf16.h"

#include "core/base/error.h"
#include "core/gemm/amx.h"
#include "core/gemm/amx_kernels.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>

#if defined(__x86_64__)
#include "core/gemm/gemm_run.h"

#include <chrono>
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // GCC 12 about its own undefined vectors (its bug 105593)
#endif
#endif

namespace eg::gemm {

#if defined(__x86_64__)
namespace {

#define EG_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")))

using Pair = std::uint32_t; // terms p (low half) and p + 1 of k

constexpr int kernel_rows = 12;
constexpr int lanes = 16; // floats of a vector

/// sum + a0 b0 + a1 b1 in every lane.
EG_BF16 inline __m512 add_products(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

/// Where the lanes of `mask` of a row of C are stored: c = alpha sum + beta c, or alpha sum + bias + addend
/// where those are not null.
EG_BF16 inline void store(__m512 sum, const Target<float>& target, float* c, __mmask16 mask, const float* bias,
                          const float* addend) {
  __m512 y = _mm512_mul_ps(sum, _mm512_set1_ps(target.alpha));
  if (bias != nullptr || addend != nullptr) {
    __m512 start = bias != nullptr ? _mm512_maskz_loadu_ps(mask, bias) : _mm512_maskz_loadu_ps(mask, addend);
    if (bias != nullptr && addend != nullptr) start = _mm512_add_ps(start, _mm512_maskz_loadu_ps(mask, addend));
    y = _mm512_add_ps(y, start);
  }
  if (target.beta != 0.0F) y = _mm512_fmadd_ps(_mm512_set1_ps(target.beta), _mm512_maskz_loadu_ps(mask, c), y);
  _mm512_mask_storeu_ps(c, mask, y);
}

/// One tile: M rows of a panel of the left operand times a panel of V vectors of the right one.
template <int M, int V>
EG_BF16 void kernel(std::int64_t steps, const Pair* left, const Pair* panel, const Target<float>& target,
                    std::int64_t columns) {
  constexpr int ahead = 16; // steps that the panel is fetched before it is used
  __m512 sum[M][V];
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      sum[i][v] = _mm512_setzero_ps();
      __builtin_prefetch(target.c + i * target.ld + v * lanes, 0, 3);
    }
  for (std::int64_t p = 0; p < steps; ++p, left += kernel_rows, panel += V * lanes) {
    __m512i right[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      right[v] = _mm512_loadu_si512(panel + v * lanes);
      __builtin_prefetch(panel + (ahead * V + v) * lanes, 0, 3);
    }
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i) {
      const __m512i value = _mm512_set1_epi32(static_cast<int>(left[i]));
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[i][v] = add_products(sum[i][v], value, right[v]);
    }
  }
  const auto last = static_cast<__mmask16>((1U << (columns - (V - 1) * lanes)) - 1U);
  const float *const bias = target.plus.bias, *const addend = target.plus.addend;
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v)
      store(sum[i][v], target, target.c + i * target.ld + v * lanes, v + 1 < V ? static_cast<__mmask16>(0xFFFF) : last,
            bias == nullptr ? nullptr : bias + v * lanes,
            addend == nullptr ? nullptr : addend + i * target.plus.ld + v * lanes);
}

/// The kernel for `rows` rows of at most kernel_rows and `columns` of at most two vectors.
template <int M>
void call_kernel(std::int64_t rows, std::int64_t steps, const Pair* left, const Pair* panel,
                 const Target<float>& target, std::int64_t columns) {
  if constexpr (M > 1)
    if (rows < M) return call_kernel<M - 1>(rows, steps, left, panel, target, columns);
  if (columns > lanes)
    kernel<M, 2>(steps, left, panel, target, columns);
  else
    kernel<M, 1>(steps, left, panel, target, columns);
}

/// Lane i: element i of `first` rounded to bf16 in the low half, of `second` in the high one.
EG_BF16 inline __m512i paired(__m512 first, __m512 second) {
  alignas(64) static constexpr std::uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                          8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(order),
                                  reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first)));
}

/// 16 pairs of a line that runs along k, of which `terms` terms are there.
EG_BF16 inline __m512i pairs_along(const float* x, std::int64_t terms) {
  if (terms >= 32) return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + 16), _mm512_loadu_ps(x)));
  const auto mask = static_cast<__mmask32>((1U << terms) - 1U);
  const auto low = static_cast<__mmask16>(mask), high = static_cast<__mmask16>(mask >> 16);
  return reinterpret_cast<__m512i>(
      _mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(high, x + 16), _mm512_maskz_loadu_ps(low, x)));
}

EG_BF16 inline void store_four(__m128i y, Pair* to) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), y); }

/// Rows of four lines become columns, `width` apart; of the 16, the first `steps` are written.
EG_BF16 inline void store_transposed(const __m512i (&row)[4], Pair* to, std::int64_t width, std::int64_t steps) {
  const __m512i low01 = _mm512_unpacklo_epi32(row[0], row[1]), low23 = _mm512_unpacklo_epi32(row[2], row[3]);
  const __m512i high01 = _mm512_unpackhi_epi32(row[0], row[1]), high23 = _mm512_unpackhi_epi32(row[2], row[3]);
  // Block b of column[s] is column 4b + s.
  const __m512i column[4] = {_mm512_unpacklo_epi64(low01, low23), _mm512_unpackhi_epi64(low01, low23),
                             _mm512_unpacklo_epi64(high01, high23), _mm512_unpackhi_epi64(high01, high23)};
  if (steps >= 16) {
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) {
      store_four(_mm512_castsi512_si128(column[s]), to + s * width);
      store_four(_mm512_extracti32x4_epi32(column[s], 1), to + (s + 4) * width);
      store_four(_mm512_extracti32x4_epi32(column[s], 2), to + (s + 8) * width);
      store_four(_mm512_extracti32x4_epi32(column[s], 3), to + (s + 12) * width);
    }
    return;
  }
  alignas(64) Pair kept[4][16];
  for (int s = 0; s < 4; ++s) _mm512_store_si512(kept[s], column[s]);
  for (std::int64_t s = 0; s < steps; ++s) std::copy_n(kept[s % 4] + s / 4 * 4, 4, to + s * width);
}

/// What Run asks of a kernel.
struct Bf16Kernel {
  using Scalar = float;
  using Packed = Pair;
  struct Task {};
  static constexpr int terms = 2;
  static constexpr int rows = kernel_rows;
  static constexpr bool reads_left_in_place = false;
  static constexpr bool packs_left_across = true;
  static constexpr bool panel_by_panel = false;
  static constexpr std::int64_t lanes() { return gemm::lanes; }
  static constexpr std::int64_t width() { return 2 * lanes(); }

  EG_BF16 static void pack_across(const float* x, std::int64_t ld, const Panels& panels, Pair* out) {
    const std::int64_t steps = (panels.k + 1) / 2;
    const std::int64_t grouped = panels.width == kernel_rows ? panels.lines / kernel_rows : 0; // panels
    std::int64_t p = 0;
    for (; grouped > 0 && 2 * (p + group) <= panels.k; p += group) {
      fetch(x, ld, panels, 2 * p, 2 * group);
      for (std::int64_t panel = 0; panel < grouped; ++panel)
        pack_group(x + 2 * p * ld + panel * kernel_rows, ld, out + panel * kernel_rows * steps + p * kernel_rows);
      for (std::int64_t s = p; s < p + group; ++s) pack_step(x, ld, panels, grouped * kernel_rows, s, out);
    }
    for (; p < steps; ++p) {
      fetch(x, ld, panels, 2 * p, 2);
      pack_step(x, ld, panels, 0, p, out);
    }
  }

  EG_BF16 static void pack_along(const float* x, std::int64_t ld, const Panels& panels, Pair* out) {
    const std::int64_t steps = (panels.k + 1) / 2;
    for (std::int64_t from = 0; from < panels.lines; from += panels.width) {
      const std::int64_t width = panels.of(from), lines = std::min(panels.width, panels.lines - from);
      for (std::int64_t i = 0; i < width; i += 4) // panels are multiples of four wide
        pack_four(x + (from + i) * ld, ld, lines - i, panels.k, out + from * steps + i, width);
    }
  }

  template <bool transposed>
  static void multiply(std::int64_t present, std::int64_t steps, const Left<Pair>& left, const Pair* panel,
                       const Target<float>& target, std::int64_t columns) {
    static_assert(!transposed, "both operands are packed: nothing is won by changing their places");
    call_kernel<kernel_rows>(present, steps, left.data, panel, target, columns);
  }

private:
  static constexpr std::int64_t group = 4; // steps of kernel_rows pairs: three vectors

  /// Lines that run across k are short runs far apart, which the processor does not foresee: those of `count` terms.
  static void fetch(const float* x, std::int64_t ld, const Panels& panels, std::int64_t term, std::int64_t count) {
    constexpr std::int64_t ahead = 24, line = 16;
    for (std::int64_t p = term + ahead; p < std::min(term + ahead + count, panels.k); ++p)
      for (std::int64_t i = 0; i < panels.lines; i += line) __builtin_prefetch(x + p * ld + i, 0, 3);
  }

  /// One step of the panels from line `from` on.
  EG_BF16 static void pack_step(const float* x, std::int64_t ld, const Panels& panels, std::int64_t from,
                                std::int64_t step, Pair* out) {
    const std::int64_t steps = (panels.k + 1) / 2;
    const bool both = 2 * step + 1 < panels.k;
    const float* const first = x + 2 * step * ld;
    const float* const second = both ? first + ld : first;
    for (; from < panels.lines; from += panels.width) {
      const std::int64_t width = panels.of(from), lines = std::min(panels.width, panels.lines - from);
      Pair* const to = out + from * steps + step * width;
      for (std::int64_t i = 0; i < width; i += gemm::lanes) {
        const auto mask = mask_of(lines - i), kept = mask_of(width - i);
        const __m512 low = _mm512_maskz_loadu_ps(mask, first + from + i);
        const __m512 high = _mm512_maskz_loadu_ps(both ? mask : __mmask16(0), second + from + i);
        _mm512_mask_storeu_epi32(to + i, kept, paired(low, high));
      }
    }
  }

  /// `group` steps of a whole panel of kernel_rows lines.
  EG_BF16 static void pack_group(const float* x, std::int64_t ld, Pair* to) {
    constexpr __mmask16 there = (1U << kernel_rows) - 1U;
    __m512i step[group];
#pragma GCC unroll 4
    for (int s = 0; s < group; ++s)
      step[s] =
          paired(_mm512_maskz_loadu_ps(there, x + 2 * s * ld), _mm512_maskz_loadu_ps(there, x + (2 * s + 1) * ld));
    // 12 of the first and 4 of the second, 8 and 8, 4 and 12: lanes of the second vector count from 16 on.
    const __m512i a = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19);
    const __m512i b = _mm512_setr_epi32(4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23);
    const __m512i c = _mm512_setr_epi32(8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi32(step[0], a, step[1]));
    _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi32(step[1], b, step[2]));
    _mm512_storeu_si512(to + 32, _mm512_permutex2var_epi32(step[2], c, step[3]));
  }

  static __mmask16 mask_of(std::int64_t lines) {
    return static_cast<__mmask16>((1U << std::clamp<std::int64_t>(lines, 0, gemm::lanes)) - 1U);
  }

  /// Four lines that run along k, of which `lines` are there.
  EG_BF16 static void pack_four(const float* x, std::int64_t ld, std::int64_t lines, std::int64_t k, Pair* to,
                                std::int64_t width) {
    for (std::int64_t p = 0; p < k; p += 32) {
      __m512i row[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) row[i] = i < lines ? pairs_along(x + i * ld + p, k - p) : _mm512_setzero_si512();
      store_transposed(row, to + p / 2 * width, width, (k - p + 1) / 2);
    }
  }
};

bool uses_tiles() { return amx::refusal(amx::Numbers::bf16).empty(); }

bool has_vector_instruction() {
  static const bool has = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma");
  return has;
}

// --- rates ---

constexpr int chains = 16; // independent sums, enough to hide the latency

/// 16 f32 multiply-adds in each of `count` instructions.
EG_BF16 __attribute__((noinline)) float chain_f32(int count) {
  __m512 sum[chains], x = _mm512_set1_ps(0.5F);
  for (auto& s : sum) s = _mm512_setzero_ps();
  for (int n = 0; n < count; n += chains) {
    asm volatile("" : "+v"(x)); // or the compiler would see what comes out
#pragma GCC unroll 16
    for (auto& s : sum) s = _mm512_fmadd_ps(x, x, s);
  }
  for (int i = 1; i < chains; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  return _mm512_cvtss_f32(sum[0]);
}

/// 32 bf16 multiply-adds in each.
EG_BF16 __attribute__((noinline)) float chain_bf16(int count) {
  __m512 sum[chains];
  __m512i x = _mm512_set1_epi32(0x3F003F00); // 0.5 and 0.5
  for (auto& s : sum) s = _mm512_setzero_ps();
  for (int n = 0; n < count; n += chains) {
    asm volatile("" : "+v"(x));
#pragma GCC unroll 16
    for (auto& s : sum) s = add_products(s, x, x);
  }
  for (int i = 1; i < chains; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  return _mm512_cvtss_f32(sum[0]);
}

/// Both in turn, the best of several: other work on the machine only slows.
Bf16Rates measured_rates() {
  using Clock = std::chrono::steady_clock;
  constexpr int count = 16384, turns = 6;
  Bf16Rates best;
  volatile float kept = 0; // so that nothing is left out
  const auto rate = [&](float (*chain)(int), int per_instruction) {
    const auto begin = Clock::now();
    kept = chain(count);
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
    return static_cast<double>(count) * per_instruction / std::max(ns, 1.0);
  };
  const bool tiles = uses_tiles();
  if (tiles) best.bf16 = amx::bf16_rate();
  for (int turn = 0; turn < turns; ++turn) {
    best.f32 = std::max(best.f32, rate(chain_f32, lanes));
    if (!tiles) best.bf16 = std::max(best.bf16, rate(chain_bf16, 2 * lanes));
  }
  return best;
}

} // namespace

bool bf16_available() { return uses_tiles() || has_vector_instruction(); }

std::string bf16_instruction() {
  if (uses_tiles()) return "tdpbf16ps (AMX)";
  return has_vector_instruction() ? "vdpbf16ps (AVX512-BF16)" : "";
}

void product_bf16(const Product<float>& p, FunctionRef<void(const blas::Tile&)> after) {
  if (uses_tiles()) return amx::product_bf16(p, after);
  Run<Bf16Kernel, false>(p, after)();
}

#else

namespace {
Bf16Rates measured_rates() { return {}; }
} // namespace

bool bf16_available() { return false; }

std::string bf16_instruction() { return {}; }

void product_bf16(const Product<float>&, FunctionRef<void(const blas::Tile&)>) {
  throw Error("gemm: this processor cannot multiply bf16");
}

#endif

const Bf16Rates& bf16_rates() {
  static const Bf16Rates rates = bf16_available() ? measured_rates() : Bf16Rates{};
  return rates;
}

bool bf16_pays() {
  constexpr double worth_rounding = 1.2; // operands must be rounded first
  return bf16_rates().bf16 > worth_rounding * bf16_rates().f32;
}

std::string bf16_refusal() {
  const char* wished = std::getenv("EQUIGRAD_BF16");
  const std::string_view wish = wished == nullptr ? "" : wished;
  if (!wish.empty() && wish != "force") throw ValueError(fmt::format("EQUIGRAD_BF16 is '{}'; it can be force", wish));
  if (!bf16_available()) return "this processor has no bf16 multiply-add (AVX512-BF16, AMX): products stay in f32";
  if (wish == "force" || bf16_pays()) return {};
  return fmt::format("this processor does {:.0f} G multiply-adds a second and thread in bf16 and {:.0f} G in f32: "
                     "products stay in f32 (EQUIGRAD_BF16=force: bf16 all the same)",
                     bf16_rates().bf16, bf16_rates().f32);
}

} // namespace eg::gemm
