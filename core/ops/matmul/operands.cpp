#include "core/ops/matmul/operands.h"

#include "core/ops/views/strided_copy.h"

#include <algorithm>

namespace eg {

MatrixOperand matrix_operand(const Tensor& x, bool transpose) {
  const std::int64_t rows = x.shape()[-2];
  const std::int64_t cols = x.shape()[-1];
  const std::int64_t row_stride = x.strides()[-2];
  const std::int64_t col_stride = x.strides()[-1];
  if ((col_stride == 1 || cols == 1) && (row_stride >= std::max<std::int64_t>(cols, 1) || rows == 1))
    return {x, rows == 1 ? std::max(row_stride, cols) : row_stride, transpose};
  if ((row_stride == 1 || rows == 1) && (col_stride >= std::max<std::int64_t>(rows, 1) || cols == 1))
    return {x, cols == 1 ? std::max(col_stride, rows) : col_stride, !transpose};
  return {packed_copy(x), cols, transpose};
}

namespace {

/// Product of the leading extents, also where the last one is 0.
std::int64_t row_count(const Shape& shape) {
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) rows *= shape[axis];
  return rows;
}

} // namespace

Tensor flatten_to_rows(const Tensor& x) {
  const std::int64_t last = x.shape()[-1];
  const std::int64_t rows = row_count(x.shape());
  if (x.is_contiguous()) return x.view_as({rows, last}, {std::max<std::int64_t>(last, 1), 1}, 0);
  return packed_copy(x).view_as({rows, last}, {std::max<std::int64_t>(last, 1), 1}, 0);
}

Tensor as_rows(const Tensor& x) { return x.rank() == 2 ? x : x.reshape({row_count(x.shape()), x.shape()[-1]}); }

} // namespace eg
