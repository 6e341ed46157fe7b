#pragma once
// Declares the kernel of cross_entropy in exact mode.

#include "core/op.h"

#include <span>

namespace eg::cross_entropy_exact {

/// Kernel of cross_entropy in double, rounded once: the sums over a row, and that over the rows, are exact.
void forward(const OpArgs& args, std::span<Tensor> out);

} // namespace eg::cross_entropy_exact
