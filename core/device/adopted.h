#pragma once
// Makes tensors on device memory that another library allocated.

#include "core/tensor.h"

#include <cstddef>
#include <memory>

namespace eg::device {

/// A packed tensor on memory of a device with another owner: Tensor::adopt there. Before `memory` goes, the last tensor
/// on it waits for the work that was queued on the device. Throws as Tensor::adopt does, DeviceError where there is no
/// such device.
Tensor adopted(std::shared_ptr<std::byte> memory, std::size_t size, const Shape& shape, DType dtype, Device device);

} // namespace eg::device
