#pragma once
// Computes products with a matrix of fewer bits than the sums have: weights in 8 bits or bf16.

#include "core/gemm/blas.h"
#include "core/gemm/skinny_gemm.h"

#include <cstdint>

namespace eg::low_bit_weights {

/// Numbers of B in T, packed: out [rows, k] = scales[r] b[r*ldb + i] (BFloat16: b itself), on all threads. T is
/// float or double, B std::int8_t or BFloat16.
template <class T, class B>
void widen(std::int64_t rows, std::int64_t k, const B* b, std::int64_t ldb, const T* scales, T* out);

/// C [m, n] = alpha A B^T + plus on all threads, with the same bits for any number of them; the operands' beta is
/// not read. Up to skinny_gemm::most rows of A in float read B once in place, and each row's result depends on that row
/// alone; else B is widened, some rows at a time, and multiplied by blas.
template <class T, class B>
void product(std::int64_t m, std::int64_t n, const skinny_gemm::Operands<T, B>& operands, const blas::Addends<T>& plus);

} // namespace eg::low_bit_weights
