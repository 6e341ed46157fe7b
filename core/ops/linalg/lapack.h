#pragma once
// Factorises matrices with LAPACK, which Debian's OpenBLAS carries. The functions are those of loops.h, with the same
// arguments and results. They run on one thread: a batch is cut by matrices.

#include "core/ops/linalg/loops.h"

namespace eg::linalg::lapack {

/// Whether OpenBLAS opens here and has the functions; they may be called only then.
bool available();

bool cholesky(std::int64_t n, double* a);
bool solve(std::int64_t n, std::int64_t k, double* a, double* b);
bool invert(std::int64_t n, double* a);
loops::Determinant determinant(std::int64_t n, double* a);
void solve_triangular(std::int64_t n, std::int64_t k, const double* a, bool upper, bool unit, double* b);
void qr(std::int64_t m, std::int64_t n, double* a, double* q, double* r);
bool eigh(std::int64_t n, double* a, double* w, double* v);
bool svd(std::int64_t m, std::int64_t n, double* a, double* u, double* s, double* vh);

} // namespace eg::linalg::lapack
