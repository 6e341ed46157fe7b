#pragma once
// Computes matrix products of operands rounded to bf16 with sums in f32, by AVX512-BF16 or AMX. AMD's processors have
// the first since Zen 4, Intel's since Cooper Lake; Intel's have the second since Sapphire Rapids.

#include "core/gemm/gemm.h"

#include <string>

namespace eg::gemm {

/// True where the processor has one of the instructions. Elsewhere nothing below but these questions may be called.
bool bf16_available();

/// Which one multiplies: "tdpbf16ps (AMX)", where the process may use tiles (amx.h), "vdpbf16ps (AVX512-BF16)", or
/// empty.
std::string bf16_instruction();

/// The product of a and b rounded to bf16 (to nearest, ties to even), its sums in f32; called only where
/// bf16_available(). Terms are added in the order of k, in even pieces of at most `depth`: an element's bits depend on
/// its row of A, its column of B and on k alone. VDPBF16PS adds them in pairs. TDPBF16PS adds the even terms of 32 to
/// one sum, the odd ones to another, then both to the element. So the bits may differ between the two; they are equal
/// where every sum is exact, and both are within eps k |A||B| of the product. Either instruction takes subnormal
/// operands for zeros and flushes subnormal sums to zero; operands beyond 3.39e38 become infinite. after as for
/// product.
void product_bf16(const Product<float>& p, FunctionRef<void(const blas::Tile&)> after);

/// Multiply-adds a second of one thread whose operands are in registers, in units of 10^9.
struct Bf16Rates {
  double f32 = 0, bf16 = 0;
};
/// Measured at the first call, in some 100 microseconds; zeros where the instruction is missing.
const Bf16Rates& bf16_rates();

/// True where products in bf16 can be faster than those in f32: there are processors whose bf16 instruction issues at
/// about a quarter of the rate of their f32 multiply-add, which halves the speed.
bool bf16_pays();

/// Why bf16 saves no time on this processor, in one sentence: the instruction is missing, or it is slower. Empty where
/// bf16 pays, or is there and EQUIGRAD_BF16 is force. Throws ValueError for another value of that variable.
std::string bf16_refusal();

} // namespace eg::gemm
