#pragma once
// Starts matrix products of tensors on a device.

#include "core/device/jobs.h"
#include "core/tensor.h"

#include <array>
#include <cstdint>

namespace eg::device {

/// A matrix in a tensor on a device, or one for each index of a batch, which the strides in the job give: element
/// (i, j) `offset` + i*row + j*column elements behind the tensor's first. row or column is 1.
struct MatrixPart {
  Tensor tensor = {}; ///< keeps the elements alive
  std::int64_t offset = 0, row = 0, column = 0;
};

/// Under MatmulPrecision::bf16 an f32 tensor rounded to bf16, packed; else the tensor.
Tensor rounded_operand(const Tensor& x);

/// The last two axes of a tensor, transposed where asked for: as they lie where one of them has unit stride and lines
/// do not overlap, else of a packed copy. `rounds`: of rounded_operand(x).
MatrixPart matrix_part(const Tensor& x, bool transpose, bool rounds = true);

/// C [m, n] = alpha A B + bias + addend, or C + alpha A B.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  MatrixPart a = {};  ///< [m, k]
  MatrixPart b = {};  ///< [k, n]
  Tensor scales = {}; ///< [n] packed, where b holds codes
  Tensor bias = {};   ///< [n] packed, or undefined
  Tensor addend = {}; ///< [m, n] packed, or undefined
  double alpha = 1;
  bool accumulate = false;
  Axes<3> batch = {};    ///< of C, A and B; none: one product
  Tensor activated = {}; ///< [m, n] packed: gets GELU of C, of the form `gelu`; then there is no alpha, addend or batch
  GeluOf gelu = GeluOf::erf;
};

/// Starts the product whose C begins `offset` elements behind the first of `c` and has rows `ldc` apart. Does nothing
/// where C is empty. `name`: of the row, for errors.
void start_product(const char* name, Product p, Tensor& c, std::int64_t offset, std::int64_t ldc);

} // namespace eg::device
