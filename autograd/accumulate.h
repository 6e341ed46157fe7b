#pragma once
// Adds two contributions to one gradient.

#include "core/tensor.h"

namespace eg {

/// sum += term; an undefined sum is zero. Written into the buffer of either one when nobody else holds it and no
/// recorder listens, else a new tensor (recorded). The bits are those of add() either way.
void accumulate(Tensor& sum, Tensor term);

} // namespace eg
