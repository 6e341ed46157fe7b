#pragma once
// Computes matrix products with our own kernel, for processors with fused multiply-adds on vectors. Operands are packed
// and a tile of C stays in registers. Measured beside OpenBLAS in docs/performance.md.

#include "core/gemm/blas.h"

namespace eg::gemm {

/// C [m, n] = alpha A B + beta C, row-major, or alpha A B + plus, which needs beta 0. beta 0 does not read C.
template <class T> struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  T alpha = 1;
  blas::Matrix<T> a, b;
  T beta = 0;
  T* c = nullptr;
  std::int64_t ldc = 0;
  bool parallel = false; ///< on all threads; else on the calling one
  blas::Addends<T> plus = {};
};

/// True where the processor has vectors that this is written for (AVX2, AVX-512, NEON, WebAssembly); else OpenBLAS does
/// the work.
bool available();

/// The product. after(block) runs behind the last write to a block of C, while it is in cache. Every element is a chain
/// of multiply-adds, fused but in WebAssembly, in the order of k, in even pieces of at most `depth` terms: its bits
/// depend on its row of A, its column of B and on k alone, neither on its position nor on the number of threads.
template <class T> void product(const Product<T>& p, FunctionRef<void(const blas::Tile&)> after);

/// Most terms of one piece of a chain.
inline constexpr std::int64_t depth = 512;

} // namespace eg::gemm
