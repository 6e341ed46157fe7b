// The runtime of the CUDA module.

#include "core/cuda/runtime.h"

#include "core/cuda/failure.h"

#include <cstdio>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>

namespace eg::cuda {
namespace {

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// One device: its streams, and where its kernels report failed checks.
struct Machine {
  cudaStream_t stream = nullptr; ///< of Lane::compute
  cudaStream_t copies = nullptr; ///< of Lane::copy
  device::KernelError* error = nullptr;

  cudaStream_t of(device::Lane lane) const { return lane == device::Lane::copy ? copies : stream; }
};

Machine& machine(int device) {
  static std::mutex mutex;
  static Machine machines[64];
  const std::scoped_lock lock(mutex);
  Machine& m = machines[device];
  check(cudaSetDevice(device), "cudaSetDevice");
  if (m.stream != nullptr) return m;
  check(cudaStreamCreateWithFlags(&m.copies, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaStreamCreateWithFlags(&m.stream, cudaStreamNonBlocking), "cudaStreamCreate");
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
  std::uint64_t everything = UINT64_MAX; // the program's cache decides what goes back
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &everything), "cudaMemPoolSetAttribute");
  check(cudaMalloc(&m.error, sizeof *m.error), "cudaMalloc");
  check(cudaMemset(m.error, 0, sizeof *m.error), "cudaMemset");
  return m;
}

} // namespace

const char* const runtime_name = "cuda";
const char* const runtime_build = EQUIGRAD_CUDA_BUILD;
const bool runtime_reuses_blocks = true;

Failure device_count(int* devices) {
  return in_words([&] { check(cudaGetDeviceCount(devices), "no device"); });
}

Failure describe(int device, device::Description* description) {
  return in_words([&] {
    machine(device);
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    *description = {};
    std::snprintf(description->name, sizeof description->name, "%s", properties.name);
    description->compute_major = properties.major;
    description->compute_minor = properties.minor;
    description->multiprocessors = properties.multiProcessorCount;
    std::size_t free_bytes = 0, total_bytes = 0;
    check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    description->free_bytes = free_bytes;
    description->total_bytes = total_bytes;
    check(cudaDriverGetVersion(&description->driver_version), "cudaDriverGetVersion");
    check(cudaRuntimeGetVersion(&description->runtime_version), "cudaRuntimeGetVersion");
  });
}

Failure allocate(int device, std::size_t bytes, void** block) {
  *block = nullptr;
  return in_words([&] {
    const cudaError_t error = cudaMallocAsync(block, bytes, machine(device).stream);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError(); // *block says so
      *block = nullptr;
      return;
    }
    check(error, "cudaMallocAsync");
  });
}

Failure release(int device, void* block) {
  return in_words([&] { check(cudaFreeAsync(block, machine(device).stream), "cudaFreeAsync"); });
}

Failure copy_in(int device, void* to, const void* from, std::size_t bytes) {
  return in_words([&] {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, machine(device).stream), "cudaMemcpyAsync");
  });
}

Failure copy_out(int device, void* to, const void* from, std::size_t bytes) {
  return in_words([&] {
    const cudaStream_t stream = machine(device).stream;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  });
}

Failure copy_within(int device, void* to, const void* from, std::size_t bytes) {
  return in_words([&] {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, machine(device).stream), "cudaMemcpyAsync");
  });
}

Failure synchronize(int device, bool everything, device::KernelError* error) {
  return in_words([&] {
    const Machine& m = machine(device);
    check(cudaMemcpyAsync(error, m.error, sizeof *error, cudaMemcpyDeviceToHost, m.stream), "cudaMemcpyAsync");
    // Arrays that come in through DLPack may still be computed on another library's stream.
    check(everything ? cudaDeviceSynchronize() : cudaStreamSynchronize(m.stream), "cudaStreamSynchronize");
    if (error->code != 0) check(cudaMemsetAsync(m.error, 0, sizeof *error, m.stream), "cudaMemsetAsync");
  });
}

Failure allocate_pinned(int device, std::size_t bytes, void** block) {
  *block = nullptr;
  return in_words([&] {
    machine(device);
    check(cudaMallocHost(block, bytes), "cudaMallocHost");
  });
}

Failure release_pinned(int, void* block) {
  return in_words([&] { check(cudaFreeHost(block), "cudaFreeHost"); });
}

Failure copy_pinned(int device, void* to, const void* from, std::size_t bytes) {
  return in_words([&] {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, machine(device).copies), "cudaMemcpyAsync");
  });
}

Failure make_event(int device, void** event) {
  return in_words([&] {
    machine(device);
    cudaEvent_t made = nullptr;
    check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "cudaEventCreate");
    *event = made;
  });
}

Failure drop_event(int, void* event) {
  return in_words([&] { check(cudaEventDestroy(static_cast<cudaEvent_t>(event)), "cudaEventDestroy"); });
}

Failure record(int device, device::Lane lane, void* event) {
  return in_words(
      [&] { check(cudaEventRecord(static_cast<cudaEvent_t>(event), machine(device).of(lane)), "cudaEventRecord"); });
}

Failure wait(int device, device::Lane lane, void* event) {
  return in_words([&] {
    check(cudaStreamWaitEvent(machine(device).of(lane), static_cast<cudaEvent_t>(event), 0), "cudaStreamWaitEvent");
  });
}

Failure wait_here(int, void* event) {
  return in_words([&] { check(cudaEventSynchronize(static_cast<cudaEvent_t>(event)), "cudaEventSynchronize"); });
}

Failure select(int device, gpu::Stream* stream) {
  return in_words([&] { *stream = machine(device).stream; });
}

device::KernelError* kernel_error(int device) { return machine(device).error; }

Failure launch_failure() {
  return in_words([&] { check(cudaGetLastError(), "launch"); });
}

} // namespace eg::cuda
