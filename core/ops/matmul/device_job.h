#pragma once
// Defines the arguments of matrix products on devices.

#include "core/device/job_axes.h"
#include "core/dtype.h"

#include <cstdint>

namespace eg::device {

/// The forms of GELU that a product may be followed by.
enum class GeluOf : int { erf, tanh };

/// C [m, n] = alpha A B + bias + addend, or C + alpha A B, for each matrix of a batch. Element (i, p) of A lies at
/// a[i*a_row + p*a_step], (p, j) of B at b[p*b_step + j*b_column], (i, j) of C at c[i*ldc + j], all counted in
/// elements. Each element of C is a chain of fused multiply-adds in the order of p, in pieces of `piece` terms, as on
/// the CPU (core/gemm/gemm.h), where the module's own kernel multiplies.
struct ProductJob {
  DType type;           ///< of C, scales, bias, addend and the sums: f32 or f64
  DType a_type, b_type; ///< `type`; bf16 for B or for both; u8 for B: bytes of signed codes, times scales[j]
  std::int64_t m, n, k;
  std::int64_t piece; ///< at least 1
  const void* a;
  std::int64_t a_row, a_step;
  const void* b;
  std::int64_t b_step, b_column;
  void* c;
  std::int64_t ldc;
  const void* scales; ///< [n], with codes alone
  const void* bias;   ///< [n], or null; not with a batch
  const void* addend; ///< element (i, j) at addend[i*ld_addend + j], or null; not with a batch
  std::int64_t ld_addend;
  double alpha;
  bool accumulate; ///< C + alpha A B; then neither bias nor addend
  Axes<3> batch;   ///< of C, A and B
  GeluOf gelu;     ///< what `activated` gets
  void* activated; ///< [m, n] packed: GELU of C, or null. Then C is packed, without alpha, addend or batch
};

} // namespace eg::device
