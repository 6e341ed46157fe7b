#include "core/device/adopted.h"

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/device/module.h"
#include "core/memory/storage.h"

#include <utility>

namespace eg::device {
namespace {

/// A copy to the host waits for the work before it, and leaves the checks that kernels made to synchronize().
void wait_for_work(Device device, const std::byte* memory) noexcept {
  try {
    std::byte first;
    copy_to_host(device, &first, memory, 1);
  } catch (const Error&) { // a device that failed says so at its next use
  }
}

} // namespace

Tensor adopted(std::shared_ptr<std::byte> memory, std::size_t size, const Shape& shape, DType dtype, Device device) {
  require_device(device);
  std::byte* const first = memory.get();
  std::shared_ptr<std::byte> waiting(first, [owner = std::move(memory), size, device](std::byte* bytes) mutable {
    if (size > 0) wait_for_work(device, bytes);
    owner.reset();
  });
  const Tensor tensor = Tensor::adopt(std::move(waiting), size, shape, dtype);
  tensor.storage()->device = device;
  return tensor;
}

} // namespace eg::device
