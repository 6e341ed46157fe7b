// Device memory: bounds, reuse, limits, copies, and who may touch it.

#include "device.h"
#include "findings.h"
#include "kernels.h"

#include <csignal>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

using namespace eg::test;
namespace emulator = eg::emulator;

std::string here(int line) { return fmt::format("memory_test.cpp:{}", line); }

/// The signal that ends a child which runs f; 0 where it ends by itself.
template <class F> int signal_of(F f) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : {SIGSEGV, SIGBUS}) std::signal(signal, SIG_DFL); // AddressSanitizer's would exit
    f();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST_CASE("device memory: blocks are aligned, NaN at first, and counted") {
  const auto before = emulator::memory_use();
  {
    const DeviceArray<float> a(3), b(1000);
    CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % 256 == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(b.data()) % 256 == 0);
    CHECK(std::ranges::all_of(b.host(), [](float x) { return std::isnan(x); }));
    CHECK(emulator::memory_use().live_bytes == before.live_bytes + 4012);
    CHECK(emulator::memory_use().live_blocks == before.live_blocks + 2);
  }
  CHECK(emulator::memory_use().live_bytes == before.live_bytes);
  CHECK(emulator::device_malloc(0) == nullptr);
  emulator::device_free(nullptr);
}

TEST_CASE("device memory: freed blocks are used again by the plain build alone, as NaN") {
  void* const first = emulator::device_malloc(5000);
  emulator::device_memset(first, 0, 5000);
  emulator::device_free(first);
  float value = 0;
  void* const second = emulator::device_malloc(5000);
  emulator::copy_from_device(&value, second, 4);
  CHECK(std::isnan(value));
  CHECK((first == second) == !emulator::checked());
  emulator::device_free(second);
}

TEST_CASE("device memory: many blocks, and many more in turn") {
  std::vector<void*> blocks;
  for (int i = 0; i < 10000; ++i) blocks.push_back(emulator::device_malloc(static_cast<std::size_t>(i) + 1));
  std::ranges::sort(blocks);
  CHECK(std::ranges::adjacent_find(blocks) == blocks.end());
  for (void* const block : blocks) emulator::device_free(block);
  const auto live = emulator::memory_use().live_blocks;
  for (int i = 0; i < (emulator::checked() ? 100 : 1000); ++i)
    emulator::device_free(emulator::device_malloc(std::size_t{1} << 20));
  CHECK(emulator::memory_use().live_blocks == live);
}

TEST_CASE("device memory: more than there is is refused") {
  const auto live = emulator::memory_use().live_bytes;
  emulator::set_memory_limit(live + 1000);
  void* const all = emulator::device_malloc(1000);
  CHECK_THROWS_AS(emulator::device_malloc(1), emulator::OutOfMemory);
  must_find([] { emulator::device_malloc(1); }, {"out of device memory: device_malloc at " + here(__LINE__)});
  emulator::device_free(all);
  emulator::device_free(emulator::device_malloc(1000));
  emulator::set_memory_limit(std::size_t{80} << 30);
}

TEST_CASE("device memory: copies name what is wrong with them") {
  std::vector<float> host(64);
  const DeviceArray<float> x(64), y(64);
  must_find([&] { emulator::copy_to_device(x.data(), host.data(), 260); },
            {"copy_to_device at " + here(__LINE__ - 1), "0 bytes behind the block of 256 bytes"});
  must_find([&] { emulator::copy_to_device(x.data() - 1, host.data(), 4); }, {"4 bytes before the block of 256"});
  must_find([&] { emulator::copy_to_device(host.data(), host.data(), 4); }, {"the address is no device memory"});
  must_find([&] { emulator::copy_to_device(x.data(), y.data(), 4); }, {"the source is device memory"});
  must_find([&] { emulator::copy_from_device(x.data(), y.data(), 4); }, {"the destination is device memory"});
  must_find([&] { emulator::copy_on_device(x.data(), x.data() + 1, 8); }, {"overlap"});
  must_find([&] { emulator::device_memset(x.data() + 60, 0, 20); }, {"device_memset at " + here(__LINE__)});
  emulator::copy_on_device(x.data(), x.data() + 2, 8);
}

TEST_CASE("device memory: a locked one is the kernels' and copies' alone") {
  std::vector<float> ones(64, 1.0F);
  const DeviceArray<float> x(ones), y(64);
  volatile float* const at = x.data();
  CHECK(signal_of([&] { (void)at[0]; }) == 0); // the control
  emulator::lock_memory(true);
  CHECK(signal_of([&] { (void)at[0]; }) == SIGSEGV);
  const DeviceArray<float> z(64);
  add_packed(x.data(), x.data(), y.data(), 16);
  add_packed(y.data(), y.data(), z.data(), 16);
  CHECK(z.host() == std::vector<float>(64, 4.0F));
  CHECK(signal_of([&] { (void)at[0]; }) == SIGSEGV);
  emulator::lock_memory(false);
  CHECK(at[0] == 1.0F);
}

TEST_CASE("faults: those of the host reach the handler that was there") {
  struct sigaction mine {
  }, before{}, now{};
  mine.sa_handler = [](int) { _exit(7); };
  sigaction(SIGSEGV, &mine, &before);
  const DeviceArray<float> x(std::vector<float>(64, 1.0F)), y(64);
  add_packed(x.data(), x.data(), y.data(), 16);
  sigaction(SIGSEGV, nullptr, &now);
  const bool same = now.sa_handler == mine.sa_handler; // after a launch it is there again
  CHECK(same);
  sigaction(SIGSEGV, &before, nullptr);
}

TEST_CASE("faults: another thread's fault during a launch is not the kernel's") {
  // A child whose second thread faults while the first runs kernels: the program ends, as it does without the emulator.
  CHECK(signal_of([] {
          const DeviceArray<float> x(std::vector<float>(4096, 1.0F)), y(4096);
          auto* const page =
              static_cast<volatile char*>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
          std::thread other([&] {
            usleep(20000);
            page[0] = 1;
          });
          for (;;) softmax(x.data(), y.data(), 4, 1024, 128);
        }) == SIGSEGV);
}

TEST_CASE("launches of two host threads take turns") {
  const std::vector<float> ones(4096, 1.0F);
  const auto work = [&](bool& right) {
    for (int i = 0; i < 50; ++i) {
      const DeviceArray<float> x(ones), y(4096);
      softmax(x.data(), y.data(), 4, 1024, 64);
      right = right && y.host() == std::vector<float>(4096, 1.0F / 1024);
    }
  };
  bool first = true, second = true;
  std::thread other([&] { work(second); });
  work(first);
  other.join();
  CHECK(first);
  CHECK(second);
}

TEST_CASE("shared memory: the limit can be set") {
  std::mt19937_64 generator(1);
  constexpr std::size_t n = 7000; // 112,000 bytes for the gradient of layer_norm
  const DeviceArray<float> x(normal(n, generator)), gamma(normal(n, generator)), dx(n), partial(2 * n), sums(2 * n);
  const auto run = [&] {
    layer_norm_backward(x.data(), gamma.data(), x.data(), dx.data(), partial.data(), sums.data(), 1, n, 1e-5F, 1);
  };
  must_find(run,
            {"norm_rows_backward: launch at rows.cu:", "112000 bytes of dynamic shared memory; there may be 101376"});
  emulator::set_shared_limit(std::size_t{163} << 10);
  run();
  emulator::set_shared_limit(std::size_t{99} << 10);
}

} // namespace
