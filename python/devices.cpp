// equigrad.cuda: devices, their memory, and why there is none.

#include "core/device/device.h"

#include "bindings.h"

#include <fmt/format.h>

namespace eg::python {
namespace {

Device cuda_device(nb::handle device) {
  if (PyLong_Check(device.ptr()) != 0) return Device::cuda(nb::cast<int>(device));
  const std::optional<Device> named = device_from(device);
  if (!named || named->is_cpu()) throw nb::type_error("cuda: give 'cuda', 'cuda:N' or N");
  return *named;
}

nb::dict memory_of(Device device) {
  device::require_device(device);
  const AllocatorStats stats = device::memory_stats(device);
  nb::dict facts;
  facts["live"] = stats.live_bytes;
  facts["peak"] = stats.peak_bytes;
  facts["cached"] = stats.cached_bytes;
  facts["limit"] = device::memory_limit(device);
  return facts;
}

nb::list described() {
  nb::list all;
  for (const device::DeviceInfo& d : device::list_devices()) {
    nb::dict facts;
    facts["device"] = d.device.str();
    facts["name"] = d.name;
    facts["compute_capability"] = fmt::format("{}.{}", d.compute_major, d.compute_minor);
    facts["multiprocessors"] = d.multiprocessors;
    facts["total"] = d.total_bytes;
    facts["free"] = d.free_bytes;
    all.append(facts);
  }
  return all;
}

} // namespace

void bind_devices(nb::module_& m) {
  nb::module_ cuda = m.def_submodule("cuda", "CUDA devices.");
  cuda.def("is_available", &device::is_available, "True when the device module opens and has a device.");
  cuda.def("why_unavailable", &device::why_unavailable,
           "Why is_available() is False: each place that was looked at; '' when it is True.");
  cuda.def("devices", &described, "What is known of each device. Raises DeviceError where there is no module.",
           nb::sig("def devices() -> list[dict[str, typing.Any]]"));
  cuda.def(
      "memory", [](nb::handle device) { return memory_of(cuda_device(device)); }, "device"_a = "cuda",
      "Bytes of a device's tensors: live, their peak, kept for reuse, and the limit.",
      nb::sig("def memory(device: str | int = 'cuda') -> dict[str, int]"));
  cuda.def(
      "release_memory", [](nb::handle device) { device::release_cached_memory(cuda_device(device)); },
      "device"_a = "cuda", "Gives memory that is kept for reuse back to the device.",
      nb::sig("def release_memory(device: str | int = 'cuda') -> None"));
  cuda.def(
      "set_memory_limit",
      [](std::size_t bytes, nb::handle device) { device::set_memory_limit(cuda_device(device), bytes); }, "bytes"_a,
      "device"_a = "cuda", "Most bytes that a device's tensors may have at once.",
      nb::sig("def set_memory_limit(bytes: int, device: str | int = 'cuda') -> None"));
  cuda.def(
      "synchronize", [](nb::handle device) { released([&, d = cuda_device(device)] { device::synchronize(d); }); },
      "device"_a = "cuda",
      "Waits until all work on the device is done. Raises IndexError for an index that a kernel found out of range.",
      nb::sig("def synchronize(device: str | int = 'cuda') -> None"));
}

} // namespace eg::python
