// A shared library with kernels and the emulator, as the device module's twin is one. Its test opens it.

#define DOCTEST_CONFIG_DISABLE // the program that opens it has the tests
#include "device.h"
#include "findings.h"
#include "planted.h"

#include <string>

/// What the emulator in this library finds in a kernel that reads beyond its input.
extern "C" __attribute__((visibility("default"))) const char* equigrad_test_finding() {
  static std::string words;
  const eg::test::DeviceArray<float> x(std::vector<float>(1024, 1.0F)), y(1024);
  words = eg::test::finding_of([&] { eg::test::planted::reads_one_too_many(x.data(), y.data(), 1024); });
  return words.c_str();
}
