#pragma once
// Lists kernels of int8_product.h made of vector instructions: VNNI of 512 and 256 bits, AVX2, and plain C++.

#include "core/gemm/int8_product.h"

#include <vector>

namespace eg::int8_kernels {

/// Those that this processor has, the fastest first; plain C++ is the last everywhere.
std::vector<int8_product::Engine> engines();

} // namespace eg::int8_kernels
