#pragma once
// Products with few rows on the left, which are bound by reading the matrix on the right once.

#include <cstdint>

namespace eg::few_rows {

/// Most rows of A: with more, packing B once pays.
inline constexpr std::int64_t most = 8;
/// Fewest elements of B: 128 KiB of f32 and less lie in cache, where packing costs little.
inline constexpr std::int64_t least_weights = 32768;

/// C = alpha A B^T + beta C, row-major with leading dimensions; beta 0 does not read C.
template <class T> struct Operands {
  std::int64_t k = 0; ///< columns of A and B
  T alpha = 1;
  const T* a = nullptr;
  std::int64_t lda = 0;
  const T* b = nullptr;
  std::int64_t ldb = 0;
  T beta = 0;
  T* c = nullptr;
  std::int64_t ldc = 0;
};

/// C [m, n] from A [m, k] and B [n, k], 1 <= m <= most. Each element is one dot product whose sum depends on its two
/// rows alone: neither on m nor on where it lies.
template <class T> void product(std::int64_t m, std::int64_t n, const Operands<T>& operands);

} // namespace eg::few_rows
