#pragma once
// Selects the precision of matrix products: f32 throughout, or operands rounded to bf16 or to 8 bits.

#include <cstdint>
#include <string_view>

namespace eg {

/// full: in the tensors' own type.
/// bf16: products of f32 matrices (matmul, linear, einsum, convolution, attention, and their gradients) round their
/// operands to bf16 and add in f32, where the processor can multiply bf16 (gemm::bf16_available); elsewhere they are
/// full. Everything else stays f32: tensors, sums, norms, weights, gradients, optimisers. Products with at most 8 rows
/// on the left and large weights on the right (decoding token by token), which wait for memory, stay f32 too, and so
/// do products in f64 and exact reductions. Subnormal operands count as zeros.
/// int8: products of an f32 x with weights that are stored in 8 bits (linear_int8) round each row of x to 8 bits as
/// well, with a scale for each row, and add whole numbers, exactly (int8_product.h). Everything else is full, products
/// with at most 8 rows and all on a device too. Gradients are those of the product without that rounding.
enum class MatmulPrecision : std::uint8_t { full, bf16, int8 };

/// "f32", "bf16" or "int8": how the command line names them. Throws ValueError that lists them.
MatmulPrecision matmul_precision_named(std::string_view name);
std::string_view name_of(MatmulPrecision products);

/// What holds on this thread; full unless a scope says otherwise.
MatmulPrecision matmul_precision();

/// Sets the products of this thread while it lives. The rules that a tape runs follow the scope that is open when the
/// gradient is taken, so keep it open over forward and backward.
class MatmulPrecisionScope {
public:
  explicit MatmulPrecisionScope(MatmulPrecision wanted);
  ~MatmulPrecisionScope();
  MatmulPrecisionScope(const MatmulPrecisionScope&) = delete;
  MatmulPrecisionScope& operator=(const MatmulPrecisionScope&) = delete;

private:
  MatmulPrecision before_;
};

} // namespace eg
