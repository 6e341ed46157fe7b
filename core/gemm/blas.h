#pragma once
// Computes every matrix product of the library. The backend is our own packed kernel (core/gemm/gemm.h), or OpenBLAS
// where EQUIGRAD_GEMM says openblas and on processors without vectors. Parallel products are cut into M x N tiles
// (never along K) on a grid that depends on the sizes alone, so the bits do not depend on the number of threads.

#include "core/base/function_ref.h"
#include "core/gemm/matmul_precision.h"

#include <cstdint>
#include <string>

namespace eg::blas {

/// Row-major matrix operand: element (i, j) at data[i*ld + j], or at data[j*ld + i] when transposed.
template <class T> struct Matrix {
  const T* data = nullptr;
  std::int64_t ld = 0;
  bool transposed = false;
};

/// C[M, N] = alpha * A[M, K] B[K, N] + beta * C on the calling thread, row-major with leading dimension ldc. beta == 0
/// does not read C. K == 0 scales C. products: what holds on the thread that shares out the work (eg::products()),
/// which a task on another thread cannot see; without effect for double.
template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, Matrix<T> a, Matrix<T> b, T beta, T* c,
          std::int64_t ldc, MatmulPrecision products = MatmulPrecision::full);

/// Rectangle of C that one tile covers: rows [row, row+rows), columns [col, col+cols).
struct Tile {
  std::int64_t row, rows, col, cols;
};

/// What is added to a product: bias[j] + addend[i*ld + j] to element (i, j), or the one that is not null.
template <class T> struct Addends {
  const T* bias = nullptr;
  const T* addend = nullptr;
  std::int64_t ld = 0;

  bool any() const { return bias != nullptr || addend != nullptr; }
  /// Those of the part of C that begins at (row, col).
  Addends from(std::int64_t row, std::int64_t col) const {
    return {bias == nullptr ? nullptr : bias + col, addend == nullptr ? nullptr : addend + row * ld + col, ld};
  }
  /// Writes them into `rows` x `cols` elements of C, where there are any.
  void fill(std::int64_t rows, std::int64_t cols, T* c, std::int64_t ldc) const;
};

/// C = alpha A B + plus on all threads, tile by tile, with the calling thread's eg::products(). after(tile) runs when a
/// tile is done and still in cache.
template <class T>
void gemm_tiled(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, Matrix<T> a, Matrix<T> b,
                const Addends<T>& plus, T* c, std::int64_t ldc, FunctionRef<void(const Tile&)> after);
/// C = alpha A B + beta C in the same way.
template <class T>
void gemm_tiled(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, Matrix<T> a, Matrix<T> b, T beta, T* c,
                std::int64_t ldc);

/// The same product cut by OpenBLAS's own threads: the yardstick that the benchmark holds our tiles against. Not to be
/// used beside other work: OpenBLAS's workers spin after each call.
template <class T>
void gemm_openblas_threads(int threads, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, Matrix<T> a,
                           Matrix<T> b, T beta, T* c, std::int64_t ldc);

/// "OpenBLAS 0.3.21 pthread, core SkylakeX, 1 thread a call". The library is opened here or at the first product: the
/// file that EQUIGRAD_OPENBLAS names, else the system's libopenblas.so.0. Throws Error when it cannot be opened or is
/// not OpenBLAS.
std::string description();

/// Names what computes matrix products: "own kernel" or "OpenBLAS" (EQUIGRAD_GEMM=openblas, or a processor that ours is
/// not written for). Throws ValueError for another value of that variable.
std::string engine();

} // namespace eg::blas
