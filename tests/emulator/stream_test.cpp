// Streams: what is queued runs in order, and late ones as late as CUDA may run it.

#include "device.h"
#include "findings.h"
#include "kernels.h"
#include "planted.h"

namespace {

using namespace eg::test;
namespace emulator = eg::emulator;
using Temper = emulator::Stream::Temper;

std::string here(int line) { return fmt::format("stream_test.cpp:{}", line); }

/// Pinned host memory.
struct Pinned {
  explicit Pinned(std::size_t count) : data(static_cast<float*>(emulator::pinned_malloc(count * sizeof(float)))) {}
  ~Pinned() {
    if (data != nullptr) emulator::pinned_free(data);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  float* data;
};

constexpr std::size_t n = 64, bytes = n * sizeof(float);

TEST_CASE("streams: both tempers give the same to who waits") {
  for (const Temper temper : {Temper::eager, Temper::late}) {
    emulator::Stream stream(temper);
    const Pinned in(n), out(n);
    std::fill_n(in.data, n, 3.0F);
    auto* const x = static_cast<float*>(stream.malloc_async(bytes));
    auto* const y = static_cast<float*>(stream.malloc_async(bytes));
    stream.copy_to_device(x, in.data, bytes);
    add_packed(x, x, y, n / 4, &stream);
    stream.copy_on_device(x, y, bytes);
    stream.memset(y, 0, bytes);
    stream.free_async(y);
    stream.copy_from_device(out.data, x, bytes);
    stream.free_async(x);
    stream.synchronize();
    CHECK(std::all_of(out.data, out.data + n, [](float v) { return v == 6.0F; }));
  }
}

TEST_CASE("streams: a missing wait shows in a late one") {
  emulator::Stream eager, late(Temper::late);
  const DeviceArray<float> x(std::vector<float>(n, 1.0F));
  const Pinned out(n);
  eager.copy_from_device(out.data, x.data(), bytes);
  CHECK(out.data[0] == 1.0F); // the mistake is forgiven
  late.copy_from_device(out.data, x.data(), bytes);
  CHECK(std::isnan(out.data[0]));
  late.synchronize();
  CHECK(out.data[0] == 1.0F);
}

TEST_CASE("streams: pinned memory is read when the copy runs, pageable memory at the call") {
  for (const Temper temper : {Temper::eager, Temper::late}) {
    emulator::Stream stream(temper);
    const DeviceArray<float> x(n), y(n);
    const Pinned pinned(n);
    std::vector<float> pageable(n, 1.0F);
    std::fill_n(pinned.data, n, 1.0F);
    stream.copy_to_device(x.data(), pinned.data, bytes);
    stream.copy_to_device(y.data(), pageable.data(), bytes);
    std::fill_n(pinned.data, n, 2.0F); // a mistake
    std::fill_n(pageable.data(), n, 2.0F);
    CHECK(x.host()[0] == (temper == Temper::late ? 2.0F : 1.0F));
    CHECK(y.host()[0] == 1.0F);
    // A copy into pageable memory waits.
    stream.copy_from_device(pageable.data(), y.data(), bytes);
    CHECK(pageable[0] == 1.0F);
  }
}

TEST_CASE("streams: a host buffer freed before its copy ran is found") {
  emulator::Stream late(Temper::late);
  const DeviceArray<float> x(std::vector<float>(n, 1.0F));
  for (const bool into : {false, true}) {
    Pinned buffer(n);
    std::fill_n(buffer.data, n, 1.0F);
    int line = 0;
    if (into) {
      line = __LINE__ + 1;
      late.copy_from_device(buffer.data, x.data(), bytes);
    } else {
      line = __LINE__ + 1;
      late.copy_to_device(x.data(), buffer.data, bytes);
    }
    must_find([&] { emulator::pinned_free(buffer.data); },
              {"pinned_free at " + here(__LINE__ - 1), "_device at " + here(line), "waits in a stream"});
    late.synchronize();
    emulator::pinned_free(buffer.data);
    must_find([&] { emulator::pinned_free(buffer.data); }, {"no pinned memory, or freed before"});
    buffer.data = nullptr;
  }
}

TEST_CASE("streams: work of a late one fails where somebody waits, by its own name") {
  emulator::Stream late(Temper::late);
  const DeviceArray<float> x(std::vector<float>(n, 1.0F)), y(n);
  void* const gone = emulator::device_malloc(bytes);
  late.free_async(gone);
  must_find([&] { late.free_async(gone); }, {"free_async at " + here(__LINE__), "freed before"});
  add_packed(x.data(), static_cast<float*>(gone), y.data(), n / 4, &late); // after its end
  late.memset(y.data(), 0, bytes);
  must_find([&] { late.synchronize(); }, {"add_by_four: block (0,0,0)", "memory that was freed", "elements.cu:"});
  late.synchronize(); // what was queued behind it is forgotten
  CHECK(std::isnan(y.host()[0]));
  late.copy_on_device(y.data(), x.data(), bytes + 4);
  must_find([&] { late.synchronize(); }, {"copy_on_device at " + here(__LINE__ - 1)});
  // What CUDA refuses at the launch is refused there.
  must_find([&] { softmax(x.data(), y.data(), 1, 4, 2048, &late); }, {"softmax_rows: launch at rows.cu:"});
}

TEST_CASE("streams: another stream waits for an event, or sees what was before") {
  for (const bool waits : {false, true}) {
    emulator::Stream copies(Temper::late), work(Temper::late);
    const Pinned in(n);
    std::fill_n(in.data, n, 5.0F);
    const DeviceArray<float> x(std::vector<float>(n, 1.0F)), y(n);
    copies.copy_to_device(x.data(), in.data, bytes);
    const emulator::Event there = copies.record();
    if (waits) work.wait(there);
    add_packed(x.data(), x.data(), y.data(), n / 4, &work);
    work.synchronize();
    std::vector<float> host(n);
    work.copy_from_device(host.data(), y.data(), bytes);
    CHECK(host[0] == (waits ? 10.0F : 2.0F));
    emulator::synchronize(there);
    copies.synchronize();
  }
}

TEST_CASE("streams: functions without one wait for all") {
  emulator::Stream late(Temper::late);
  const DeviceArray<float> x(std::vector<float>(n, 1.0F)), y(n), z(n);
  add_packed(x.data(), x.data(), y.data(), n / 4, &late);
  CHECK(y.host()[0] == 2.0F);
  add_packed(y.data(), y.data(), x.data(), n / 4, &late);
  add_packed(x.data(), x.data(), z.data(), n / 4); // the stream that has no name
  CHECK(z.host()[0] == 8.0F);
  void* const block = emulator::device_malloc(bytes);
  late.copy_on_device(block, z.data(), bytes);
  emulator::device_free(block);
}

} // namespace
