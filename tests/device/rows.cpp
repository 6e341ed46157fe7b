// The laws on a device, for every row.

#include "core/device/device.h"
#include "core/ops.h"
#include "core/registry.h"
#include "device/every_row.h"
#include "support/law_tools.h"
#include "support/laws.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fmt/format.h>
#include <limits>
#include <string>
#include <string_view>

using namespace eg;

TEST_CASE("kernels on the device agree with plain loops") { test::enforce_on_device(laws::reference_law); }
TEST_CASE("kernels on the device read any layout") { test::enforce_on_device(laws::layout_law); }
TEST_CASE("f32 on the device agrees with f64") { test::enforce_on_device(laws::dtype_law); }
TEST_CASE("kernels on the device take small extents") { test::enforce_on_device(laws::small_extent_law); }
TEST_CASE("bad calls on the device are refused") { test::enforce_on_device(laws::errors_law); }

namespace {

/// Every NaN as the same one: a GPU's has other bits than x86's.
laws::Tensors with_one_nan(laws::Tensors all) {
  for (Tensor& x : all)
    if (x.defined() && is_floating(x.dtype()))
      x = where(isnan(x), Tensor::full({}, std::numeric_limits<double>::quiet_NaN(), x.dtype()), x);
  return all;
}

} // namespace

TEST_CASE("the bits of the CPU") {
  int rows = 0;
  for (const OpDef* op : registry()) {
    if (!op->cuda_same_bits || !test::is_asked_for(*op)) continue;
    ++rows;
    for (const DType dtype : {DType::f32, DType::f64})
      for (const Sample& sample : op->samples(dtype)) {
        const laws::Tensors here = with_one_nan(laws::outputs(*op, sample));
        const laws::LawDeviceScope scope(Device::cuda());
        const std::string difference = laws::difference_in_bits(with_one_nan(laws::outputs(*op, sample)), here);
        CHECK_MESSAGE(difference.empty(), laws::where(*op, sample, dtype), ": ", difference);
      }
  }
  MESSAGE(rows, " rows have the bits of the CPU");
  if (std::getenv("EQUIGRAD_DEVICE_ROWS") == nullptr) CHECK(rows >= 120);
}

TEST_CASE("every sample and its gradient") {
  for (const OpDef* op : registry()) {
    if (!test::is_asked_for(*op)) continue;
    const laws::LawDeviceScope scope(Device::cuda());
    for (const DType dtype : {DType::f32, DType::f64})
      for (const Sample& sample : op->samples(dtype)) {
        const laws::Tensors y = laws::outputs(*op, sample);
        const laws::Tensors wanted = laws::reference_outputs(*op, sample);
        for (std::size_t o = 0; o < y.size(); ++o)
          CHECK_MESSAGE(y[o].shape() == wanted[o].shape(), laws::where(*op, sample, dtype));
        if (laws::differentiable(*op, sample)) laws::gradients(*op, sample, laws::cotangents_for(y));
      }
  }
}

TEST_CASE("a row has a device kernel, or says why it has none") {
  int rows = 0;
  for (const OpDef* op : registry()) {
    if (op->cuda != nullptr || op->view != nullptr || op->body != nullptr) continue;
    ++rows;
    CHECK_MESSAGE(!op->no_cuda.empty(), std::string(op->name),
                  ": neither a device kernel nor the reason why there is none");
    const Sample sample = op->samples(DType::f32).front();
    const laws::LawDeviceScope scope(Device::cuda());
    std::string words;
    try {
      laws::outputs(*op, sample);
    } catch (const DeviceError& e) {
      words = e.what();
    }
    CHECK_MESSAGE(words.find(fmt::format("{}: has no kernel for cuda:0", op->name)) == 0, words);
  }
  MESSAGE(rows, " rows have no kernel for a device");
}
