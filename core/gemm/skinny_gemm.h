#pragma once
// Computes products with few rows on the left, whose cost is reading the matrix on the right once.

#include "core/bf16.h"

#include <cstdint>

namespace eg::skinny_gemm {

/// Most rows of A: with more, packing B once pays.
inline constexpr std::int64_t most = 8;
/// Fewest elements of B: 128 KiB of f32 and less fit in cache, where packing costs little.
inline constexpr std::int64_t least_weights = 32768;

/// Operands of C = alpha A B^T + beta C, row-major with leading dimensions; beta 0 does not read C. B's numbers may be
/// stored in another type than T, with a factor for each of its rows.
template <class T, class B = T> struct Operands {
  std::int64_t k = 0; ///< columns of A and B
  T alpha = 1;
  const T* a = nullptr;
  std::int64_t lda = 0;
  const B* b = nullptr;
  std::int64_t ldb = 0;
  T beta = 0;
  T* c = nullptr;
  std::int64_t ldc = 0;
  const T* scales = nullptr; ///< [n], of int8_t: row j of B stands for scales[j] times its numbers
};

/// C [m, n] from A [m, k] and B [n, k], 1 <= m <= most. Each element is one dot product whose sum depends on its two
/// rows alone: neither on m nor on its position. (T, B) is (float, float), (double, double), (float, int8_t) or
/// (float, BFloat16). What the numbers of B stand for is formed in registers, so that where floats hold that exactly
/// the bits are those of the product with a B of floats.
template <class T, class B = T> void product(std::int64_t m, std::int64_t n, const Operands<T, B>& operands);

/// C = alpha A B + beta C for A [m, k] and B [k, n], 1 <= m <= most. Each element is summed in the order of k and
/// depends on its row and its column alone.
template <class T> void product_of_rows(std::int64_t m, std::int64_t n, const Operands<T>& operands);

} // namespace eg::skinny_gemm
