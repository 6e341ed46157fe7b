#pragma once
// Declares the flag that says where a verb computes.

#include "core/base/device.h"

#include <CLI/CLI.hpp>

#include <string>

namespace eg::cli {

/// --device. `where`: a word before its meaning, "bench step: ".
void add_device(CLI::App& app, std::string& device, const std::string& where = "");
/// What it asks for, "" being the environment's. Throws UsageError for a word that names no device, DeviceError that
/// says why for a device that is not there.
Device requested_device(const std::string& device);

} // namespace eg::cli
