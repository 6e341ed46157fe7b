#pragma once
// Multiplies in the tile registers of Intel's AMX; called only where amx::refusal is empty.

#include "core/gemm/gemm.h"
#include "core/gemm/tiles.h"

#include <cstdint>

namespace eg::gemm::amx {

/// As gemm::product_bf16. TDPBF16PS adds the even terms of 32 and the odd ones in f32, each a chain of fused
/// multiply-adds, then both to the element: the order differs from VDPBF16PS's, so the bits may.
void product_bf16(const Product<float>& p, FunctionRef<void(const blas::Tile&)> after);

/// int8_product.h's kernel: sums [32][32] of whole numbers, exact.
void multiply_int8(std::int64_t steps, const tiles::Line* left, const tiles::Line* right, std::int64_t rows,
                   std::int64_t columns, std::int32_t* sums);

/// Runs work with the registers configured on this thread.
void with_tiles(FunctionRef<void()> work);

/// Multiply-adds a second of one thread in bf16, its operands in registers, in units of 10^9; measured.
double bf16_rate();

} // namespace eg::gemm::amx
