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

/// One device: its compute stream, its pool and where its kernels report failed checks.
struct Machine {
  cudaStream_t stream = nullptr;
  device::KernelError* error = nullptr;
};

Machine& machine(int device) {
  static std::mutex mutex;
  static Machine machines[64];
  const std::scoped_lock lock(mutex);
  Machine& m = machines[device];
  check(cudaSetDevice(device), "cudaSetDevice");
  if (m.stream != nullptr) return m;
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

Failure synchronize(int device, device::KernelError* error) {
  return in_words([&] {
    const Machine& m = machine(device);
    check(cudaMemcpyAsync(error, m.error, sizeof *error, cudaMemcpyDeviceToHost, m.stream), "cudaMemcpyAsync");
    // All streams: arrays that come in through DLPack may still be computed on another library's.
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (error->code != 0) check(cudaMemsetAsync(m.error, 0, sizeof *error, m.stream), "cudaMemsetAsync");
  });
}

Failure select(int device, gpu::Stream* stream) {
  return in_words([&] { *stream = machine(device).stream; });
}

device::KernelError* kernel_error(int device) { return machine(device).error; }

Failure launch_failure() {
  return in_words([&] { check(cudaGetLastError(), "launch"); });
}

} // namespace eg::cuda
