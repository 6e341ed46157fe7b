// Devices by name, and what is said where there is no device module.

#include "core/device/device.h"
#include "core/random.h"
#include "nn/layers.h"

#include <cstdlib>
#include <doctest/doctest.h>
#include <string>

using namespace eg;

namespace {

/// Before anything asks for the module: the answer is kept.
const bool set_before = setenv("EQUIGRAD_CUDA_MODULE", "/nonexistent/module.so", 1) == 0;

template <class F> std::string refusal(F&& f) {
  try {
    f();
  } catch (const DeviceError& e) {
    return e.what();
  }
  return "nothing was refused";
}

} // namespace

TEST_CASE("devices by name") {
  CHECK(Device::parse("cpu") == Device::cpu());
  CHECK(Device::parse("cuda") == Device::cuda(0));
  CHECK(Device::parse("cuda:12").str() == "cuda:12");
  for (const char* wrong : {"", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:64", "cuda:1x", "cpu:0"})
    CHECK_THROWS_AS(Device::parse(wrong), ValueError);
  CHECK(device::usable("cpu").is_cpu());
  CHECK(device::usable("").is_cpu());
  CHECK_THROWS_AS(device::usable("gpu"), ValueError);
}

TEST_CASE("without a module every way to a device says why") {
  REQUIRE(set_before);
  CHECK_FALSE(device::is_available());
  CHECK(device::why_unavailable() == "/nonexistent/module.so: no such file");
  const Tensor x = random_normal({2, 3}, {1, 1});
  nn::Linear layer(3, 2, {2, 2});
  const Tensor weight = layer.weight;
  const std::string words = "device: no module for CUDA was found; /nonexistent/module.so: no such file; "
                            "docs/devices.md says how to build one";
  CHECK(refusal([&] { x.to(Device::cuda()); }) == words);
  CHECK(refusal([&] { Tensor::empty({2}, DType::f32, Device::cuda(3)); }) == words);
  CHECK(refusal([&] { layer.to(Device::cuda()); }) == words);
  CHECK(layer.weight.id() == weight.id());
  CHECK(refusal([] { device::usable("cuda:1"); }) == words);
  CHECK(refusal([] { device::list_devices(); }) == words);
  const DeviceScope scope(Device::cuda());
  CHECK(refusal([] { Tensor::zeros({2}); }) == words);
  CHECK(refusal([] { random_normal({2}, {1, 1}); }) == words);
}
