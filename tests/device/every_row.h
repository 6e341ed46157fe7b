#pragma once
// Asks a law of every row on the device.

#include "core/device/device.h"
#include "core/registry.h"
#include "support/law_device.h"
#include "support/laws.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fmt/format.h>
#include <sstream>
#include <string>

namespace eg::test {

/// EQUIGRAD_DEVICE_ROWS=softmax,sum looks at these rows alone.
inline bool is_asked_for(const OpDef& op) {
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
