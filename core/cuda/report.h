#pragma once
// Reports checks of values that kernels make and that fail.

#include "core/cuda/gpu.h"

#include "core/device/check.h"
#include "core/device/table.h"

#include <cstdint>

namespace eg::cuda {

/// What is wrong; the fields are those of device::KernelError.
struct Finding {
  device::Refused reason;
  std::int64_t value, limit, position, other;
};

/// Keeps the first finding since the host last asked.
__device__ inline void report(device::KernelError* error, const device::RowName& row, const Finding& found) {
  if (atomicCAS(&error->code, 0, static_cast<int>(found.reason)) != 0) return;
  error->value = found.value;
  error->limit = found.limit;
  error->position = found.position;
  error->other = found.other;
  for (unsigned i = 0; i < sizeof row.text; ++i) error->kernel[i] = row.text[i];
}

/// True for 0 <= value < limit; else reports `value` at `position`.
__device__ inline bool is_inside(std::int64_t value, std::int64_t limit, std::int64_t position, device::Refused reason,
                                 const device::RowName& row, device::KernelError* error) {
  if (value >= 0 && value < limit) return true;
  report(error, row, {reason, value, limit, position, 0});
  return false;
}

} // namespace eg::cuda
