#pragma once
// Starts reductions on devices.

#include "core/device/jobs.h"
#include "core/ops/reduce/axes.h"
#include "core/tensor.h"

#include <string_view>

namespace eg::reduce {

/// The numbers that a kind of reduction takes (device::ReduceJob).
struct DeviceNumbers {
  double factor = 1, small = 1, p = 2;
};

/// What a reduction on a device writes, each packed with a number for each group, or undefined.
struct DeviceOutputs {
  Tensor y, places, wide; ///< wide: f64
};

/// Runs a reduction of the flagged axes of x. `given`: undefined, or packed f64 with a number for each group.
void run_on_device(std::string_view op, device::ReduceKind kind, const Tensor& x, const Reduced& reduced,
                   DeviceOutputs out, const DeviceNumbers& numbers = {}, const Tensor& given = {});

/// Means of the flagged axes, in f64: a number for each group.
Tensor means_on_device(std::string_view op, const Tensor& x, const Reduced& reduced);

} // namespace eg::reduce
