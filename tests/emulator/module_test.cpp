// The emulator within a shared library: findings there name lines, and leave the program's own emulator alone.

#include "device.h"
#include "findings.h"
#include "planted.h"

#include <dlfcn.h>

namespace {

using namespace eg::test;

TEST_CASE("module: an emulator in a shared library names the lines of its kernels") {
  void* const library = dlopen(EMULATOR_MODULE, RTLD_NOW | RTLD_LOCAL);
  REQUIRE_MESSAGE(library != nullptr, dlerror());
  const auto finding = reinterpret_cast<const char* (*)()>(dlsym(library, "equigrad_test_finding"));
  const bool there = finding != nullptr;
  REQUIRE(there);
  const auto before = eg::emulator::memory_use().live_bytes;
  const DeviceArray<float> x(std::vector<float>(1024, 1.0F)), y(1024);
  const std::vector<std::string> words{"reads_one_too_many_kernel: block (15,0,0) thread (63,0,0)",
                                       wrong_line("reads_one_too_many")};
  CHECK(missing_words(finding(), words) == std::vector<std::string>{});
  must_find([&] { planted::reads_one_too_many(x.data(), y.data(), 1024); }, words);
  CHECK(missing_words(finding(), words) == std::vector<std::string>{});
  CHECK(eg::emulator::memory_use().live_bytes == before + 8192);
  dlclose(library);
}

} // namespace
