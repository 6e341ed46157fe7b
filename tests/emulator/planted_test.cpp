// Kernels that are wrong on purpose: each is caught, by its name and the line that is wrong.

#include "device.h"
#include "findings.h"
#include "planted.h"

#include <cstdlib>

namespace {

using namespace eg::test;
using eg::emulator::checked;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true; // UndefinedBehaviorSanitizer ends the program at some of them
#else
constexpr bool sanitized = false;
#endif

/// Which build catches it: any; any but one with sanitizers; the one with hooks.
enum class By { any, no_sanitizer, hooks };

struct Planted {
  const char* name;
  planted::Wrong launch;
  By by;
  const char* words;
  bool two_lines = false; ///< the finding names a second one
  const char* kernel = "";
};

const Planted all[] = {
    {"sum_without_barrier", planted::sum_without_barrier, By::hooks, "shared memory"},
    {"two_sums_one_room", planted::two_sums_one_room, By::hooks, "race in shared memory, byte", true},
    {"barrier_in_branch", planted::barrier_in_branch, By::any, "stuck: 40 threads (first 0) are at __syncthreads"},
    {"two_barriers", planted::two_barriers, By::any, "stuck: 32 threads", true},
    {"leaves_before_barrier", planted::leaves_before_barrier, By::any, "14 threads (first 50) are at the end"},
    {"shuffle_after_return", planted::shuffle_after_return, By::any, "12 threads (first 20) are at the end"},
    {"shuffle_from_absent_lane", planted::shuffle_from_absent_lane, By::any, "reads lane 20, which takes no part"},
    {"mask_without_caller", planted::mask_without_caller, By::any, "the mask leaves out the lane that calls"},
    {"half_a_warp", planted::half_a_warp, By::any, "stuck: 16 threads (first 0) are at warp_butterfly"},
    {"missing_syncwarp", planted::missing_syncwarp, By::hooks, "race in shared memory, byte"},
    {"blocks_collide", planted::blocks_collide, By::hooks, "race in device memory: thread 0 of block 0 wrote"},
    {"reads_next_block", planted::reads_next_block, By::hooks, "race in device memory", true},
    {"atomic_and_plain", planted::atomic_and_plain, By::hooks, "race in device memory: several blocks", true},
    {"float_atomics", planted::float_atomics, By::hooks, "float atomics without an order: thread 0 of block 0"},
    {"reads_one_too_many", planted::reads_one_too_many, By::any, "0 bytes behind the block of 4096 bytes"},
    {"writes_one_too_many", planted::writes_one_too_many, By::any, "0 bytes behind the block of 4096 bytes"},
    {"shared_overrun", planted::shared_overrun, By::hooks, "0 bytes behind room of 252 bytes"},
    {"dynamic_overrun", planted::dynamic_overrun, By::hooks, "0 bytes behind the dynamic part of 252 bytes"},
    {"misaligned_load4", planted::misaligned_load4, By::any, "no multiple of 16"},
    {"misaligned_double", planted::misaligned_double, By::hooks, "no multiple of 8"},
    {"reads_null", planted::reads_null, By::hooks, "null pointer"},
    {"unwritten_shared", planted::unwritten_shared, By::hooks, "read of shared memory that nobody wrote"},
    {"writes_constant", planted::writes_constant, By::hooks, "write to constant memory"},
    {"local_of_another", planted::local_of_another, By::hooks, "read of the local memory of another thread"},
    {"large_local_array", planted::large_local_array, By::no_sanitizer, "more than 65536 bytes of local memory"},
    {"divides_by_zero", planted::divides_by_zero, By::no_sanitizer, "integer division by zero"},
    {"too_much_static", planted::too_much_static, By::any, "49156 bytes of static shared memory"},
    {"too_much_together", planted::too_much_together, By::any, "110592 bytes of static and dynamic"},
    {"no_dynamic", planted::no_dynamic, By::any, "the launch gives no dynamic shared memory"},
    {"no_threads", planted::no_threads, By::any, "a block of (0,1,1) threads", false, "copies"},
    {"too_many_threads", planted::too_many_threads, By::any, "a block of (1025,1,1) threads", false, "copies"},
    {"no_blocks", planted::no_blocks, By::any, "a grid of (0,1,1) blocks", false, "copies"},
    {"too_much_dynamic", planted::too_much_dynamic, By::any, "102400 bytes of dynamic", false, "copies"},
    {"too_many_parameters", planted::too_many_parameters, By::any, "more than 4 KiB of parameters"},
};

bool caught_here(By by) { return checked() || by == By::any || (by == By::no_sanitizer && !sanitized); }

TEST_CASE("planted: every wrong kernel is caught, by its name and line") {
  std::mt19937_64 generator(3);
  const DeviceArray<float> x(normal(1024, generator));
  for (const Planted& wrong : all) {
    if (!caught_here(wrong.by)) continue;
    CAPTURE(wrong.name);
    const std::string kernel = *wrong.kernel != '\0' ? wrong.kernel : wrong.name;
    std::vector<std::string> words{kernel + "_kernel: ", wrong.words, wrong_line(wrong.name)};
    if (wrong.two_lines) words.push_back(wrong_line(std::string(wrong.name) + " 2"));
    const DeviceArray<float> y(1024);
    must_find([&] { wrong.launch(x.data(), y.data(), 1024); }, words);
    // The emulator goes on as if nothing had been.
    const DeviceArray<float> again(1024);
    planted::copies(x.data(), again.data(), 1024);
    CHECK(same_bits(again.host(), x.host()));
  }
}

TEST_CASE("planted: the same in every schedule, but for who is named") {
  using eg::emulator::Order;
  std::mt19937_64 generator(3);
  const DeviceArray<float> x(normal(1024, generator));
  for (const Order order : {Order::descending, Order::random, Order::interleaved}) {
    eg::emulator::set_schedule({order, 5});
    for (const Planted& wrong : all) {
      if (!caught_here(wrong.by)) continue;
      CAPTURE(wrong.name);
      const DeviceArray<float> y(1024);
      const std::string kernel = *wrong.kernel != '\0' ? wrong.kernel : wrong.name;
      must_find([&] { wrong.launch(x.data(), y.data(), 1024); }, {kernel + "_kernel: "});
    }
  }
  eg::emulator::set_schedule({});
}

TEST_CASE("planted: without hooks, a null pointer is a fault of the kernel") {
  const DeviceArray<float> y(32);
  if (!sanitized && !checked())
    must_find([&] { planted::reads_null(nullptr, y.data(), 32); },
              {"reads_null_kernel: ", "null pointer, planted.cu:"});
}

TEST_CASE("planted: without hooks, float atomics show by a schedule") {
  if (checked()) return;
  std::mt19937_64 generator(3);
  const DeviceArray<float> x(normal(1024, generator));
  const auto sums = under_all_schedules([&] {
    const DeviceArray<float> y(1024);
    planted::float_atomics(x.data(), y.data(), 1024);
    return std::vector<float>(1, y.host()[0]);
  });
  CHECK_FALSE(same_bits(sums[0], sums[1]));
}

TEST_CASE("planted: what nobody wrote is found where it is read") {
  std::mt19937_64 generator(3);
  const DeviceArray<float> x(normal(1000, generator)), y(1000), z(1000);
  planted::forgets_the_tail(x.data(), y.data(), 1000);
  CHECK(std::isnan(y.host()[768])); // in any build
  if (checked())
    must_find(
        [&] { planted::copies(y.data(), z.data(), 1000); },
        {"copies_kernel: block (12,0,0) thread (0,0,0)", "device memory that nobody wrote", wrong_line("copies")});
  // A copy carries what is known along; a renewed part forgets it.
  eg::emulator::copy_on_device(z.data(), y.data(), 4000);
  if (checked()) must_find([&] { planted::copies(z.data(), y.data(), 1000); }, {"block (12,0,0)", "nobody wrote"});
  eg::emulator::copy_on_device(z.data(), x.data(), 4000);
  planted::copies(z.data(), y.data(), 1000);
  eg::emulator::device_renew(z.data() + 10, 4);
  CHECK(std::isnan(z.host()[10]));
  if (checked()) must_find([&] { planted::copies(z.data(), y.data(), 1000); }, {"block (0,0,0) thread (10,0,0)"});
}

TEST_CASE("planted: host pointers in kernels") {
  if (!checked()) return;
  std::vector<float> host(64, 1.0F);
  const DeviceArray<float> x(host), y(64);
  must_find([&] { planted::copies(host.data(), y.data(), 64); },
            {"copies_kernel: ", "read of host memory (4 bytes)", wrong_line("copies")});
  must_find([&] { planted::writes_host(x.data(), host.data(), 64); },
            {"writes_host_kernel: ", "write to host memory", wrong_line("writes_host")});
}

std::string here(int line) { return fmt::format("planted_test.cpp:{}", line); }

TEST_CASE("planted: memory after its end") {
  const DeviceArray<float> x(std::vector<float>(64, 1.0F));
  void* const block = eg::emulator::device_malloc(256);
  void* const inner = static_cast<std::byte*>(block) + 64;
  must_find([&] { eg::emulator::device_free(inner); },
            {here(__LINE__ - 1), "no block begins here: byte 64 of the block of 256 bytes"});
  eg::emulator::device_free(block);
  must_find([&] { planted::copies(static_cast<const float*>(block), x.data(), 64); },
            {"copies_kernel: ", "memory that was freed", wrong_line("copies")});
  must_find([&] { eg::emulator::device_free(block); }, {"device_free at " + here(__LINE__), "memory that was freed"});
  float host = 0;
  must_find([&] { eg::emulator::device_free(&host); }, {"device_free at " + here(__LINE__), "no device memory"});
  void* const foreign = std::malloc(16);
  must_find([&] { eg::emulator::device_free(foreign); }, {"device_free at " + here(__LINE__), "no device memory"});
  std::free(foreign);
}

TEST_CASE("planted: a check that finds nothing would be noticed") {
  CHECK(finding_of([] {}) == "");
  CHECK(missing_words("", {"kernel"}) == std::vector<std::string>{"kernel"});
  CHECK(missing_words("kernel: planted.cu:12", {"kernel: ", "planted.cu:13"}) ==
        std::vector<std::string>{"planted.cu:13"});
  CHECK(missing_words("kernel", {wrong_line("no such name")}).size() == 1);
  std::size_t lines = 0; // every marked line is asked for above
  std::ifstream text(EQUIGRAD_SOURCE_DIR "/tests/emulator/planted.cu");
  for (std::string line; std::getline(text, line);) {
    const std::size_t at = line.find("// WRONG ");
    if (at == std::string::npos) continue;
    ++lines;
    const std::string name = line.substr(at + 9);
    const bool known = std::ranges::any_of(all, [&](const Planted& wrong) {
      return name == wrong.name || (wrong.two_lines && name == std::string(wrong.name) + " 2");
    });
    CHECK_MESSAGE((known || name == "copies" || name == "writes_host"), name);
  }
  CHECK(lines > 35);
}

} // namespace
