#pragma once
// Declares the memory, copies, streams and events of a device. Two sources define them: one calls CUDA's runtime, the
// other the emulator.

#include "core/cuda/gpu.h"

#include "core/device/table.h"

namespace eg::cuda {

using device::Failure;

extern const char* const runtime_name;   ///< "cuda" or "emulated"
extern const char* const runtime_build;  ///< "CUDA 13.0; sm_80 sm_90, PTX 90"
extern const bool runtime_reuses_blocks; ///< device::Table::reuses_blocks

// As in device::Table.
Failure device_count(int* devices);
Failure describe(int device, device::Description* description);
Failure allocate(int device, std::size_t bytes, void** block);
Failure release(int device, void* block);
Failure copy_in(int device, void* to, const void* from, std::size_t bytes);
Failure copy_out(int device, void* to, const void* from, std::size_t bytes);
Failure copy_within(int device, void* to, const void* from, std::size_t bytes);
Failure synchronize(int device, bool everything, device::KernelError* error);
Failure allocate_pinned(int device, std::size_t bytes, void** block);
Failure release_pinned(int device, void* block);
Failure copy_pinned(int device, void* to, const void* from, std::size_t bytes);
Failure make_event(int device, void** event);
Failure drop_event(int device, void* event);
Failure record(int device, device::Lane lane, void* event);
Failure wait(int device, device::Lane lane, void* event);
Failure wait_here(int device, void* event);

/// Makes `device` the calling thread's and gives its compute stream.
Failure select(int device, gpu::Stream* stream);
/// Where kernels of the device report failed checks: device memory, zero when nothing has failed.
device::KernelError* kernel_error(int device);
/// What the last launch answered.
Failure launch_failure();

} // namespace eg::cuda
