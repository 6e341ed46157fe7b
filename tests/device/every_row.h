#pragma once
// Asks a law of every row on the device.

#include "core/device/device.h"
#include "core/registry.h"
#include "support/law_device.h"
#include "support/law_tools.h"
#include "support/laws.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fmt/format.h>
#include <sstream>
#include <string>
#include <string_view>

namespace eg::test {

/// False for a row without a device kernel, and for one whose body calls such a row: both are refused in words that
/// device.rows reads.
inline bool runs_on_device(const OpDef& op) {
  if (!op.no_cuda.empty()) return false;
  if (op.body == nullptr) return true;
  const laws::LawDeviceScope scope(Device::cuda());
  try {
    laws::outputs(op, op.samples(DType::f32).front());
  } catch (const DeviceError& e) {
    return std::string_view(e.what()).find(": has no kernel for ") == std::string_view::npos;
  }
  return true;
}

/// EQUIGRAD_DEVICE_ROWS=softmax,sum looks at these rows alone. Rows that no device runs are left out.
inline bool is_asked_for(const OpDef& op) {
  if (!runs_on_device(op)) return false;
  const char* const names = std::getenv("EQUIGRAD_DEVICE_ROWS");
  if (names == nullptr) return true;
  static const bool known = [&] { // a misspelt name would ask nothing
    std::istringstream list(names);
    for (std::string name; std::getline(list, name, ',');) find_op(name);
    return true;
  }();
  return known && fmt::format(",{},", names).find(fmt::format(",{},", op.name)) != std::string::npos;
}

inline void enforce_on_device(laws::Law law) {
  int rows = 0;
  for (const OpDef* op : registry()) {
    if (!is_asked_for(*op)) continue;
    const laws::LawDeviceScope scope(Device::cuda());
    const laws::Verdict verdict = law(*op);
    CHECK_MESSAGE(verdict.pass(), std::string(op->name), ":", verdict.text());
    rows += verdict.checked > 0 ? 1 : 0;
  }
  MESSAGE(rows, " rows were asked");
  if (std::getenv("EQUIGRAD_DEVICE_ROWS") == nullptr) CHECK(rows > 0);
}

} // namespace eg::test
