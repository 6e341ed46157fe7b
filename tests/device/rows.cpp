// The laws on a device, for every row that has a kernel there, and the list of those that have none yet.

#include "core/device/device.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/registry.h"
#include "support/law_tools.h"
#include "support/laws.h"

#include <doctest/doctest.h>

#include <fmt/format.h>
#include <set>
#include <string>

using namespace eg;

namespace {

/// True when every sample of the row runs on the device.
bool runs_on_device(const OpDef& op) {
  if (op.view != nullptr || op.cuda != nullptr) return true;
  if (op.body == nullptr) return false;
  const laws::LawDeviceScope scope(Device::cuda());
  try {
    for (const Sample& sample : op.samples(DType::f32)) laws::outputs(op, sample);
  } catch (const DeviceError&) {
    return false;
  }
  return true;
}

void enforce_on_device(laws::Law law) {
  int rows = 0;
  for (const OpDef* op : registry()) {
    if (!runs_on_device(*op)) continue;
    const laws::LawDeviceScope scope(Device::cuda());
    const laws::Verdict verdict = law(*op);
    CHECK_MESSAGE(verdict.pass(), std::string(op->name), ":", verdict.text());
    rows += verdict.checked > 0 ? 1 : 0;
  }
  CHECK(rows > 0);
}

} // namespace

TEST_CASE("kernels on the device agree with plain loops") { enforce_on_device(laws::reference_law); }
TEST_CASE("kernels on the device read any layout") { enforce_on_device(laws::layout_law); }
TEST_CASE("f32 on the device agrees with f64") { enforce_on_device(laws::dtype_law); }
TEST_CASE("kernels on the device take small extents") { enforce_on_device(laws::small_extent_law); }
TEST_CASE("bad calls on the device are refused") { enforce_on_device(laws::errors_law); }

TEST_CASE("the bits of the CPU") {
  int rows = 0;
  for (const OpDef* op : registry()) {
    if (!op->cuda_same_bits) continue;
    ++rows;
    for (const DType dtype : {DType::f32, DType::f64})
      for (const Sample& sample : op->samples(dtype)) {
        const laws::Tensors here = laws::outputs(*op, sample);
        const laws::LawDeviceScope scope(Device::cuda());
        const std::string difference = laws::difference_in_bits(laws::outputs(*op, sample), here);
        CHECK_MESSAGE(difference.empty(), laws::where(*op, sample, dtype), ": ", difference);
      }
  }
  MESSAGE(rows, " rows have the bits of the CPU");
  CHECK(rows >= 57);
}
