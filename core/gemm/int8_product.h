#pragma once
// Computes products of matrices of whole numbers of 8 bits, exact in 32 bits, for weights in 8 bits.

#include "core/base/function_ref.h"
#include "core/gemm/blas.h"
#include "core/gemm/tiles.h"

#include <cstdint>
#include <string>
#include <vector>

namespace eg::int8_product {

/// Most terms of a sum: 127 * 128 * most < 2^31.
inline constexpr std::int64_t most_terms = 131072;

/// C [m, n] = (a scale for each row) (a scale for each column) A B^T + plus, from A [m, k] of -127 to 127 and B [n, k]
/// of -128 to 127; both row-major.
struct Product {
  std::int64_t m = 0, n = 0, k = 0; ///< k <= most_terms
  const std::int8_t* a = nullptr;
  std::int64_t lda = 0;
  const float* row_scales = nullptr; ///< [m]
  const std::int8_t* b = nullptr;
  std::int64_t ldb = 0;
  const float* column_scales = nullptr; ///< [n]
  blas::Addends<float> plus;
  float* c = nullptr;
  std::int64_t ldc = 0;
};

/// sums [32][32] = products of a panel of the left operand and one of the right, `steps` of 64 terms; of them those
/// that `rows` and `columns` reach. A panel holds 32 lines a step (the right one 16 where columns <= 16): tiles.h says
/// what is in a line.
using Kernel = void (*)(std::int64_t steps, const gemm::tiles::Line* left, const gemm::tiles::Line* right,
                        std::int64_t rows, std::int64_t columns, std::int32_t* sums);

/// A kernel that this processor can run; `name` is the instruction that multiplies.
struct Engine {
  const char* name;
  Kernel multiply;
  /// Runs work on this thread with the registers that multiply needs; null where it needs no others.
  void (*prepared)(FunctionRef<void()> work) = nullptr;
};
/// Those of this processor, the fastest first. All of them give the same sums.
const std::vector<Engine>& engines();

/// The product on all threads, by the first of engines() or by `engine`. Sums are exact: the bits depend on the
/// operands alone. c = float(sum) (row scale * column scale), then + bias, then + addend.
void product(const Product& p);
void product(const Product& p, const Engine& engine);

/// Rows of x in 8 bits: codes [rows, k] = x / scale to the nearest whole number, scales [rows] = the largest magnitude
/// of a row / 127. A row with a NaN or an infinity has the scale NaN. On all threads.
void quantize_rows(std::int64_t rows, std::int64_t k, const float* x, std::int64_t ldx, std::int8_t* codes,
                   float* scales);

} // namespace eg::int8_product
