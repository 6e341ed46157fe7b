#pragma once
// Selects and lists devices, waits for them, and reports and limits their memory.

#include "core/base/device.h"
#include "core/memory/allocator.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace eg {

/// Sets the device of tensors that this thread makes without naming one (Tensor::empty, zeros, ones, full, from). The
/// destructor restores the device of before.
class DeviceScope {
public:
  explicit DeviceScope(Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

private:
  Device before_;
};

/// The device on which this thread makes tensors.
Device current_device();

namespace device {

/// Describes one CUDA device. Sizes are in bytes.
struct DeviceInfo {
  Device device;
  std::string name;      ///< "NVIDIA H100 80GB HBM3"
  int compute_major = 0; ///< 9 of compute capability 9.0
  int compute_minor = 0; ///< 0 of 9.0
  int multiprocessors = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
  int driver_version = 0; ///< of CUDA that the driver speaks, as 1000 major + 10 minor; 0 without a driver
};

/// The module that drives the devices.
struct ModuleInfo {
  std::string path;
  std::string name;  ///< "cuda", or "emulated" for the module that runs kernels on the CPU
  std::string build; ///< "CUDA 13.0; sm_80 sm_90, PTX 90"
};

/// Opens the device module, once a process: the file that EQUIGRAD_CUDA_MODULE names. Without that variable it is
/// libequigrad_cuda.so beside the executable or beside the library, or in ../lib/equigrad of either's folder. Throws
/// DeviceError that lists each place and why the file there cannot be used.
ModuleInfo open_module();
/// The devices of the module, which may be none. Throws as open_module does.
std::vector<DeviceInfo> list_devices();
/// True when the module opens and has a device.
bool is_available();
/// Why is_available() is false: a line for each place that was looked at. Empty when it is true.
std::string why_unavailable();

/// Throws DeviceError with the reason unless the device exists; the CPU always does.
void require_device(Device device);
/// The device of that name. For "" it is the device that the environment variable EQUIGRAD_DEVICE names, else the CPU.
/// Throws ValueError for a word that names no device, DeviceError for a device that does not exist.
Device usable(std::string_view name);

/// Waits until all work on the device is done. Throws IndexError for an index that a kernel found outside its range,
/// DeviceError for a device that failed. Does nothing for the CPU.
void synchronize(Device device);

/// Which engine multiplies matrices on the devices, and why no other: "cuBLASLt 13.0.2". Throws as open_module does.
std::string products();
/// How many kernels of the module's table this process has started on the device. A kernel of the table may be several
/// launches of CUDA's.
std::uint64_t started_kernels(Device device);

/// Bytes that tensors use on the device, and bytes that are cached for them.
AllocatorStats memory_stats(Device device);
void reset_peak_memory(Device device);
void release_cached_memory(Device device);
/// Limits the bytes that may be live at once. Default: 95 % of what was free when the device was first used.
std::size_t memory_limit(Device device);
void set_memory_limit(Device device, std::size_t bytes);

} // namespace device
} // namespace eg
