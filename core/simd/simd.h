#pragma once
// Names the vector code that runs on this processor. The vector functions themselves are in core/simd/simd-inl.h, for
// kernel files only.

#include <string>

namespace eg::simd {

/// Name of the vector instructions chosen at run time ("AVX3" is AVX-512) and their width: "AVX3, 512 bits".
std::string target();

} // namespace eg::simd
