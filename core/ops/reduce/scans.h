#pragma once
// Composes parts of the derivatives of scans and products from ops.

#include "core/tensor.h"

namespace eg {

/// y_k = x_(k-1) (towards the end) or x_(k+1) along the axis; 0 where there is no such neighbour.
Tensor shifted_along(const Tensor& x, int axis, bool towards_end);

/// y_k = x_0 ... x_(k-1) along the axis (reverse: x_(k+1) ... x_last); 1 for the first.
Tensor product_before(const Tensor& x, int axis, bool reverse);

} // namespace eg
