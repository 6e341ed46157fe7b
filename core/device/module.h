#pragma once
// Calls the device module: for the code of the operations, not for users.

#include "core/base/device.h"
#include "core/device/table.h"

#include <cstddef>
#include <memory>
#include <string>

namespace eg::device {

/// The table of the open module. Opens it first; throws DeviceError as open_module does.
const Table& module_table();

/// Throws DeviceError "cuda:0: what: words" where a module's function gave words.
void require(Device device, const char* what, Failure failure);

/// Requires that a kernel of the operation `name` was queued. With EQUIGRAD_CUDA_CHECK=1 waits for it, so that a failed
/// check names the operation that made it.
void finish_launch(Device device, const char* name, Failure failure);

/// Runs a kernel of the table: `launch(device, "fill", &Table::fill, job)`.
template <class Job>
void launch(Device device, const char* name, Failure (*Table::*kernel)(int, const Job&), const Job& job) {
  finish_launch(device, name, (module_table().*kernel)(device.index, job));
}

/// Device memory of at least `bytes` bytes, uninitialised, which the last owner returns to the device's cache. Throws
/// MemoryError as the CPU's allocator does, DeviceError for a device that does not exist.
std::shared_ptr<std::byte> allocate(Device device, std::size_t bytes);

/// Copies bytes between host and device memory, in the order of the device's work.
void copy_to_device(Device device, void* to, const void* from, std::size_t bytes);
void copy_to_host(Device device, void* to, const void* from, std::size_t bytes);
void copy_within_device(Device device, void* to, const void* from, std::size_t bytes);

} // namespace eg::device
