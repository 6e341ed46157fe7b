#pragma once
// Declares the kernel of where for floats.

#include <cstdint>

namespace eg {

/// y[i] = c[i] ? a[i] : b[i] for i < n: a and b step by 1 or stay.
void choose(const bool* c, const float* a, bool a_steps, const float* b, bool b_steps, float* y, std::int64_t n);

} // namespace eg
