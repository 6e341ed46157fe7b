#include "core/gemm/int8_kernels.h"

#include "core/gemm/tile_kernels.h"

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace eg::int8_kernels {

namespace tiles = gemm::tiles;
using tiles::Line;

namespace plain {

/// Loops that any compiler makes vectors of.
struct Quads {
  static constexpr int lanes = 16, rows = 2, vectors = 1;
  static constexpr bool excess = false;
  struct Vector {
    std::int32_t of[lanes];
  };
  struct Right {
    std::int8_t of[4 * lanes];
  };
  static Vector zero() { return {}; }
  static Right right(const Right& r) { return r; }
  static Right load(const std::uint32_t* words) {
    Right r;
    __builtin_memcpy(&r, words, sizeof r);
    return r;
  }
  static std::uint32_t broadcast(std::uint32_t word) { return word; }
  static void store(const Vector& v, std::int32_t* to) { __builtin_memcpy(to, &v, sizeof v); }
  static Vector add_products(Vector sum, std::uint32_t left, const Right& r) {
    for (int q = 0; q < 4; ++q) {
      const auto value = static_cast<std::int32_t>(static_cast<std::int8_t>(left >> 8 * q));
      for (int i = 0; i < lanes; ++i) sum.of[i] += value * r.of[4 * i + q];
    }
    return sum;
  }
};
#include "core/gemm/int8_quads.inc"

} // namespace plain

#if defined(__x86_64__)

// Functions up to EG_COMPILE_FOR_ALL may use these instructions.
#define EG_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define EG_COMPILE_FOR(instructions)                                                                                   \
  EG_PRAGMA(clang attribute push(__attribute__((target(instructions))), apply_to = function))
#define EG_COMPILE_FOR_ALL EG_PRAGMA(clang attribute pop)
#else
#define EG_COMPILE_FOR(instructions) EG_PRAGMA(GCC push_options) EG_PRAGMA(GCC target instructions)
#define EG_COMPILE_FOR_ALL EG_PRAGMA(GCC pop_options)
#endif

EG_COMPILE_FOR("avx2,fma")
namespace avx2 {

/// Sixteen products a vpmaddubsw: |right| as unsigned with the left operand in the right one's sign. Two of them are at
/// most 2 * 128 * 127 < 2^15, since the left operand has no -128.
struct Quads {
  static constexpr int lanes = 8, rows = 4, vectors = 2;
  static constexpr bool excess = false;
  using Vector = __m256i;
  struct Right {
    __m256i signs, magnitudes;
  };
  static Vector zero() { return _mm256_setzero_si256(); }
  static Vector load(const std::uint32_t* words) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words)); }
  static Right right(Vector v) { return {v, _mm256_abs_epi8(v)}; }
  static Vector broadcast(std::uint32_t word) { return _mm256_set1_epi32(static_cast<int>(word)); }
  static void store(Vector v, std::int32_t* to) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v); }
  static Vector add_products(Vector sum, Vector left, const Right& r) {
    const __m256i pairs = _mm256_maddubs_epi16(r.magnitudes, _mm256_sign_epi8(left, r.signs));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};
#include "core/gemm/int8_quads.inc"

void multiply(std::int64_t steps, const Line* left, const Line* right, std::int64_t rows, std::int64_t columns,
              std::int32_t* sums) {
  multiply_quads<Quads>(steps, left, right, rows, columns, sums);
}

} // namespace avx2
EG_COMPILE_FOR_ALL

EG_COMPILE_FOR("avx2,fma,avxvnni")
namespace avx_vnni {

/// vpdpbusd takes the left operand for unsigned: 128 larger.
struct Quads {
  static constexpr int lanes = 8, rows = 4, vectors = 2;
  static constexpr bool excess = true;
  using Vector = __m256i;
  using Right = __m256i;
  static Vector zero() { return _mm256_setzero_si256(); }
  static Vector load(const std::uint32_t* words) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words)); }
  static Right right(Vector v) { return v; }
  static Vector excess_of_left() { return _mm256_set1_epi32(static_cast<int>(0x80808080U)); }
  static Vector broadcast(std::uint32_t word) { return _mm256_set1_epi32(static_cast<int>(word ^ 0x80808080U)); }
  static void store(Vector v, std::int32_t* to) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v); }
  static Vector subtract(Vector a, Vector b) { return _mm256_sub_epi32(a, b); }
  static Vector add_products(Vector sum, Vector left, Right r) { return _mm256_dpbusd_avx_epi32(sum, left, r); }
};
#include "core/gemm/int8_quads.inc"

void multiply(std::int64_t steps, const Line* left, const Line* right, std::int64_t rows, std::int64_t columns,
              std::int32_t* sums) {
  multiply_quads<Quads>(steps, left, right, rows, columns, sums);
}

} // namespace avx_vnni
EG_COMPILE_FOR_ALL

EG_COMPILE_FOR("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma")
namespace avx512_vnni {

struct Quads {
  static constexpr int lanes = 16, rows = 16, vectors = 1;
  static constexpr bool excess = true;
  using Vector = __m512i;
  using Right = __m512i;
  static Vector zero() { return _mm512_setzero_si512(); }
  static Vector load(const std::uint32_t* words) { return _mm512_loadu_si512(words); }
  static Right right(Vector v) { return v; }
  static Vector excess_of_left() { return _mm512_set1_epi32(static_cast<int>(0x80808080U)); }
  static Vector broadcast(std::uint32_t word) { return _mm512_set1_epi32(static_cast<int>(word ^ 0x80808080U)); }
  static void store(Vector v, std::int32_t* to) { _mm512_storeu_si512(to, v); }
  static Vector subtract(Vector a, Vector b) { return _mm512_sub_epi32(a, b); }
  static Vector add_products(Vector sum, Vector left, Right r) { return _mm512_dpbusd_epi32(sum, left, r); }
};
#include "core/gemm/int8_quads.inc"

void multiply(std::int64_t steps, const Line* left, const Line* right, std::int64_t rows, std::int64_t columns,
              std::int32_t* sums) {
  multiply_quads<Quads>(steps, left, right, rows, columns, sums);
}

} // namespace avx512_vnni
EG_COMPILE_FOR_ALL

namespace {

/// GCC 12 and Clang 14 do not know the name of AVX-VNNI in __builtin_cpu_supports: CPUID 7.1 EAX, bit 4.
bool has_avx_vnni() {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1U << 4) != 0;
}

} // namespace
#endif

std::vector<int8_product::Engine> engines() {
  std::vector<int8_product::Engine> all;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    all.push_back({"vpdpbusd (AVX512-VNNI)", avx512_vnni::multiply});
  if (has_avx_vnni()) all.push_back({"vpdpbusd (AVX-VNNI)", avx_vnni::multiply});
  if (__builtin_cpu_supports("avx2")) all.push_back({"vpmaddubsw (AVX2)", avx2::multiply});
#endif
  all.push_back({"plain C++", plain::multiply_quads<plain::Quads>});
  return all;
}

} // namespace eg::int8_kernels
