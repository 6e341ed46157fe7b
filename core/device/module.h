#pragma once
// Calls the functions of the device module: for the code of operations, not for users.

#include "core/base/device.h"
#include "core/device/table.h"

#include <cstddef>
#include <memory>
#include <string>

namespace eg::device {

/// Opens the module if it is closed and returns its table. Throws DeviceError as open_module does.
const Table& module_table();

/// Throws DeviceError "cuda:0: what: failure" where a function of the module failed.
void require(Device device, const char* what, Failure failure);

/// Counts a kernel of the operation `name`. Throws DeviceError where it failed to start. With EQUIGRAD_CUDA_CHECK=1 it
/// waits for the kernel, so that a failed check names its operation.
void finish_launch(Device device, const char* name, Failure failure);

/// Starts a kernel of the table: `launch(device, "fill", &Table::fill, job)`.
template <class Job>
void launch(Device device, const char* name, Failure (*Table::*kernel)(int, const Job&), const Job& job) {
  finish_launch(device, name, (module_table().*kernel)(device.index, job));
}

/// Allocates at least `bytes` bytes of device memory, uninitialised. The last owner returns them to the device's cache.
/// Throws MemoryError as the CPU's allocator does, DeviceError for a device that does not exist.
std::shared_ptr<std::byte> allocate(Device device, std::size_t bytes);

/// Copy bytes between host and device memory, in the order of the device's work. copy_to_host waits for that work.
void copy_to_device(Device device, void* to, const void* from, std::size_t bytes);
void copy_to_host(Device device, void* to, const void* from, std::size_t bytes);
void copy_within_device(Device device, void* to, const void* from, std::size_t bytes);

} // namespace eg::device
