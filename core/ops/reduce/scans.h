#pragma once
// Runs scans on devices, and composes parts of the derivatives of scans and products from ops.

#include "core/device/jobs.h"
#include "core/op.h"

namespace eg {

/// What a scan on a device reads and writes; the inputs in any layout. b: of a linear scan, scratch: of prod_of_others.
struct ScanOperands {
  Tensor x, b, y, scratch;
};
/// Runs the scan along the attribute `axis`.
void scan_on_device(const OpArgs& args, device::ScanKind kind, bool reverse, ScanOperands operands);

/// y_k = x_(k-1) (towards the end) or x_(k+1) along the axis; 0 where there is no such neighbour.
Tensor shifted_along(const Tensor& x, int axis, bool towards_end);

/// y_k = x_0 ... x_(k-1) along the axis (reverse: x_(k+1) ... x_last); 1 for the first.
Tensor product_before(const Tensor& x, int axis, bool reverse);

} // namespace eg
