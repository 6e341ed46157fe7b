#include "apps/cli/device_flag.h"

#include "apps/cli/shell/verb.h"

#include "core/device/device.h"

#include <fmt/format.h>

namespace eg::cli {

void add_device(CLI::App& app, std::string& device, const std::string& where) {
  app.add_option("--device", device,
                 where + "where to compute: cpu, cuda or cuda:N (default: EQUIGRAD_DEVICE, else cpu)")
      ->type_name("DEVICE");
}

Device requested_device(const std::string& device) {
  if (!device.empty()) try {
      Device::parse(device);
    } catch (const ValueError&) {
      throw UsageError(fmt::format("--device: '{}' is neither cpu nor cuda nor cuda:N", device));
    }
  return device::usable(device);
}

} // namespace eg::cli
