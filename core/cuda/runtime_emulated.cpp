// The runtime of the emulated module: one device, whose kernels run on the CPU.
//   EQUIGRAD_EMULATOR_ORDER   ascending, descending, random or interleaved: in which order threads take their turn
//   EQUIGRAD_EMULATOR_SEED    of the random order
//   EQUIGRAD_EMULATOR_STREAM  eager, or late: work is queued until somebody waits for it; late_compute: that of the
//                             copy lane is not
//   EQUIGRAD_EMULATOR_DEAF    who does not wait for events, so that tests see what misses: compute, copy or host
//   EQUIGRAD_EMULATOR_NAME    what the module calls itself: "emulated", or "cuda" for tests of DLPack

#include "core/cuda/runtime.h"

#include "core/cuda/failure.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

namespace eg::cuda {
namespace {

std::string setting(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

emulator::Schedule schedule() {
  const std::string order = setting("EQUIGRAD_EMULATOR_ORDER", "ascending");
  emulator::Schedule schedule{emulator::Order::ascending,
                              std::strtoull(setting("EQUIGRAD_EMULATOR_SEED", "1").c_str(), nullptr, 10)};
  if (order == "descending")
    schedule.order = emulator::Order::descending;
  else if (order == "random")
    schedule.order = emulator::Order::random;
  else if (order == "interleaved")
    schedule.order = emulator::Order::interleaved;
  else if (order != "ascending")
    throw emulator::Error("EQUIGRAD_EMULATOR_ORDER is '" + order + "'");
  return schedule;
}

emulator::Stream::Temper temper(device::Lane lane) {
  const std::string word = setting("EQUIGRAD_EMULATOR_STREAM", "eager");
  if (word != "eager" && word != "late" && word != "late_compute")
    throw emulator::Error("EQUIGRAD_EMULATOR_STREAM is '" + word + "'");
  const bool late = lane == device::Lane::compute ? word != "eager" : word == "late";
  return late ? emulator::Stream::Temper::late : emulator::Stream::Temper::eager;
}

/// Whether that one's waits for events are left out.
bool is_deaf(const std::string& who) {
  const std::string deaf = setting("EQUIGRAD_EMULATOR_DEAF", "");
  if (!deaf.empty() && deaf != "compute" && deaf != "copy" && deaf != "host")
    throw emulator::Error("EQUIGRAD_EMULATOR_DEAF is '" + deaf + "'");
  return deaf == who;
}

struct Machine {
  emulator::Stream stream, copies;
  device::KernelError* error;

  emulator::Stream& of(device::Lane lane) { return lane == device::Lane::copy ? copies : stream; }

  Machine()
      : stream(temper(device::Lane::compute)), copies(temper(device::Lane::copy)),
        error(static_cast<device::KernelError*>(emulator::device_malloc(sizeof *error))) {
    emulator::set_schedule(schedule());
    emulator::device_memset(error, 0, sizeof *error);
  }
};

Machine& machine() {
  static Machine* const instance = new Machine; // tensors in static storage may outlive static objects
  return *instance;
}

constexpr std::uint64_t total_bytes = std::uint64_t{1} << 33;

/// Runs f and gives its error in words.
template <class F> Failure attempt(int device, F&& f) {
  return in_words([&] {
    if (device != 0) throw emulator::Error("there is one emulated device, number 0");
    f();
  });
}

} // namespace

const char* const runtime_name = [] {
  static const std::string name = setting("EQUIGRAD_EMULATOR_NAME", "emulated");
  return name.c_str();
}();
const char* const runtime_build =
    emulator::checked() ? "kernels on the CPU, every access checked" : "kernels on the CPU";
const bool runtime_reuses_blocks = !emulator::checked();

Failure device_count(int* devices) {
  *devices = 1;
  return nullptr;
}

Failure describe(int device, device::Description* description) {
  return attempt(device, [&] {
    *description = {};
    std::strncpy(description->name, "emulated device", sizeof description->name - 1);
    description->multiprocessors = 1;
    description->total_bytes = total_bytes;
    description->free_bytes = total_bytes - emulator::memory_use().live_bytes;
  });
}

Failure allocate(int device, std::size_t bytes, void** block) {
  *block = nullptr;
  return attempt(device, [&] {
    try {
      *block = machine().stream.malloc_async(bytes);
    } catch (const emulator::OutOfMemory&) { // *block says so
    }
  });
}

Failure release(int device, void* block) {
  return attempt(device, [&] { machine().stream.free_async(block); });
}

Failure copy_in(int device, void* to, const void* from, std::size_t bytes) {
  return attempt(device, [&] { machine().stream.copy_to_device(to, from, bytes); });
}

Failure copy_out(int device, void* to, const void* from, std::size_t bytes) {
  return attempt(device, [&] { machine().stream.copy_from_device(to, from, bytes); });
}

Failure copy_within(int device, void* to, const void* from, std::size_t bytes) {
  return attempt(device, [&] { machine().stream.copy_on_device(to, from, bytes); });
}

Failure synchronize(int device, bool everything, device::KernelError* error) {
  return attempt(device, [&] {
    Machine& m = machine();
    if (everything) m.copies.synchronize();
    m.stream.copy_from_device(error, m.error, sizeof *error);
    m.stream.synchronize();
    if (error->code != 0) m.stream.memset(m.error, 0, sizeof *error);
  });
}

Failure allocate_pinned(int device, std::size_t bytes, void** block) {
  return attempt(device, [&] { *block = emulator::pinned_malloc(bytes); });
}

Failure release_pinned(int device, void* block) {
  return attempt(device, [&] { emulator::pinned_free(block); });
}

Failure copy_pinned(int device, void* to, const void* from, std::size_t bytes) {
  return attempt(device, [&] { machine().copies.copy_to_device(to, from, bytes); });
}

Failure make_event(int device, void** event) {
  return attempt(device, [&] { *event = std::make_unique<emulator::Event>().release(); });
}

Failure drop_event(int device, void* event) {
  return attempt(device, [&] { const std::unique_ptr<emulator::Event> owned(static_cast<emulator::Event*>(event)); });
}

Failure record(int device, device::Lane lane, void* event) {
  return attempt(device, [&] { *static_cast<emulator::Event*>(event) = machine().of(lane).record(); });
}

Failure wait(int device, device::Lane lane, void* event) {
  return attempt(device, [&] {
    if (is_deaf(lane == device::Lane::copy ? "copy" : "compute")) return;
    machine().of(lane).wait(*static_cast<emulator::Event*>(event));
  });
}

Failure wait_here(int device, void* event) {
  return attempt(device, [&] {
    if (!is_deaf("host")) emulator::synchronize(*static_cast<emulator::Event*>(event));
  });
}

Failure select(int device, gpu::Stream* stream) {
  return attempt(device, [&] { *stream = &machine().stream; });
}

device::KernelError* kernel_error(int) { return machine().error; }

Failure launch_failure() { return nullptr; }

} // namespace eg::cuda
