#pragma once
// Calls OpenBLAS, which is opened at the first call. For blas.cpp and core/ops/linalg/lapack.cpp only.

#include "core/gemm/blas.h"

#include <cstdint>
#include <string>

namespace eg::blas::openblas {

/// C = alpha A B + beta C with `threads` threads of OpenBLAS's own; k > 0. Throws Error where it cannot be opened, and
/// ShapeError for extents beyond 32 bits.
template <class T>
void gemm(int threads, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, Matrix<T> a, Matrix<T> b, T beta, T* c,
          std::int64_t ldc);

/// Calls body() with OpenBLAS set to use `threads` threads, then sets it to one again.
void with_own_threads(int threads, FunctionRef<void()> body);

/// What blas::description() returns.
std::string description();

/// Whether the library can be opened here.
bool opens();

/// Address of one of its functions, such as "dgetrf_"; null where it has none of that name. Throws Error where the
/// library cannot be opened.
void* find(const char* name);

/// Calls body(), which calls functions that find() gave: with one thread of OpenBLAS's own, and no fork() meanwhile.
void call_alone(FunctionRef<void()> body);

} // namespace eg::blas::openblas
