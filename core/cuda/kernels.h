#pragma once
// Declares the function behind each kernel of the module's table. Each is defined in a .cu file beside its operation.

#include "core/cuda/gpu.h"

#include "core/device/table.h"

namespace eg::cuda {

/// Where a kernel starts: the device's number and its compute stream.
struct Queue {
  int device;
  gpu::Stream stream;
};

#define EG_DECLARE(NAME, JOB) device::Failure NAME(Queue queue, const device::JOB& job);
EG_DEVICE_KERNELS(EG_DECLARE)
#undef EG_DECLARE

} // namespace eg::cuda
