// Devices as people name them.

#include "core/base/error.h"
#include "core/device/device.h"

#include <cstdlib>
#include <fmt/format.h>

namespace eg::device {
namespace {

constexpr const char* variable = "EQUIGRAD_DEVICE";

Device of_environment() {
  const char* const name = std::getenv(variable);
  if (name == nullptr || *name == '\0') return Device::cpu();
  try {
    return Device::parse(name);
  } catch (const ValueError& e) {
    throw ValueError(fmt::format("{}: {}", variable, e.what()));
  }
}

} // namespace

void require_device(Device device) {
  if (device.is_cpu()) return;
  const std::vector<DeviceInfo> devices = list_devices();
  if (device.index >= devices.size())
    throw DeviceError(fmt::format("{}: there is no such device; the module {} has {}", device.str(), open_module().path,
                                  devices.size()));
}

Device usable(std::string_view name) {
  const Device device = name.empty() ? of_environment() : Device::parse(name);
  require_device(device);
  return device;
}

} // namespace eg::device
