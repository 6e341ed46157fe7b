#include "core/ops/matmul/device_product.h"

#include "core/device/module.h"
#include "core/gemm/gemm_run.h"
#include "core/gemm/matmul_precision.h"
#include "core/ops.h"
#include "core/ops/matmul/operands.h"
#include "core/ops/row_tools.h"

#include <algorithm>

namespace eg::device {
namespace {

const std::byte* at(const MatrixPart& x) {
  return x.tensor.device_bytes() + x.offset * static_cast<std::int64_t>(size_of(x.tensor.dtype()));
}

} // namespace

Tensor rounded_operand(const Tensor& x) {
  return matmul_precision() == MatmulPrecision::bf16 && x.dtype() == DType::f32 ? x.to(DType::bf16) : x;
}

MatrixPart matrix_part(const Tensor& x, bool transpose, bool rounds) {
  const MatrixOperand lies = matrix_operand(rounds ? rounded_operand(x) : x, transpose);
  return {lies.tensor, 0, lies.transposed ? 1 : lies.ld, lies.transposed ? lies.ld : 1};
}

void start_product(const char* name, Product p, Tensor& c, std::int64_t offset, std::int64_t ldc) {
  if (p.m == 0 || p.n == 0 || p.batch.count() == 0) return;
  const auto bytes = [](const Tensor& x) { return x.defined() ? x.device_bytes() : nullptr; };
  const ProductJob job{.type = c.dtype(),
                       .a_type = p.a.tensor.dtype(),
                       .b_type = p.b.tensor.dtype(),
                       .m = p.m,
                       .n = p.n,
                       .k = p.k,
                       .piece = std::max<std::int64_t>(gemm::even_piece(p.k, gemm::depth, 4), 1),
                       .a = at(p.a),
                       .a_row = p.a.row,
                       .a_step = p.a.column,
                       .b = at(p.b),
                       .b_step = p.b.row,
                       .b_column = p.b.column,
                       .c = c.mutable_device_bytes(name) + offset * static_cast<std::int64_t>(size_of(c.dtype())),
                       .ldc = ldc,
                       .scales = bytes(p.scales),
                       .bias = bytes(p.bias),
                       .addend = bytes(p.addend),
                       .ld_addend = p.n,
                       .alpha = p.alpha,
                       .accumulate = p.accumulate,
                       .batch = p.batch,
                       .gelu = p.gelu,
                       .activated = p.activated.defined() ? p.activated.mutable_device_bytes(name) : nullptr};
  launch(c.device(), name, &Table::product, job);
}

} // namespace eg::device
