#pragma once
// Rounds many floats to bf16.

#include "core/bf16.h"

#include <cstdint>

namespace eg {

/// y[i] = BFloat16(x[i]), i < n, with vectors, on the calling thread.
void round_to_bf16(const float* x, std::int64_t n, BFloat16* y);

} // namespace eg
