#pragma once
// Names the vector code that runs on this processor. The vector functions themselves are in core/simd/simd-inl.h, for
// kernel files only.

#include <string>

namespace eg::simd {

/// Name of the vector instructions chosen at run time ("AVX3" is AVX-512) and their width: "AVX3, 512 bits".
std::string target();

/// Leaves kernels that are chosen at run time no wider vectors than AVX2's, so that counts of instructions are those of
/// other machines. Called before anything is computed; without effect on processors that have none, and elsewhere than
/// x86.
void limit_to_avx2();

} // namespace eg::simd
