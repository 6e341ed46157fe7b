#pragma once
// Makes tensors on device memory that another library allocated.

#include "core/tensor.h"

#include <cstddef>
#include <memory>

namespace eg::device {

/// A packed tensor on `size` bytes of device memory that another library owns. It is what Tensor::adopt makes on the
/// CPU. When the last tensor on `memory` goes, it first waits for the device's queued work. Throws as Tensor::adopt
/// does, and DeviceError where there is no such device.
Tensor adopted(std::shared_ptr<std::byte> memory, std::size_t size, const Shape& shape, DType dtype, Device device);

} // namespace eg::device
