#pragma once
// Passes the last two axes of tensors to BLAS as operands, without copies where the strides allow.

#include "core/gemm/blas.h"
#include "core/op.h"

namespace eg {

/// The last two axes of a tensor as a matrix (transposed means that the rows have unit stride), a packed copy when
/// neither axis has unit stride. `tensor` keeps the values alive.
struct MatrixOperand {
  Tensor tensor;
  std::int64_t ld = 0;
  bool transposed = false;
};

/// `transpose`: use the matrix transposed.
MatrixOperand matrix_operand(const Tensor& x, bool transpose);

/// x as [rows, last], a view where possible.
Tensor flatten_to_rows(const Tensor& x);

/// The same through ops, so that a tape sees it.
Tensor as_rows(const Tensor& x);

} // namespace eg
