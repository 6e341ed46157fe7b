// Device memory and settings, as host code asks for them.

#include "core/cuda/emulator/machine.h"

#include <cstring>

namespace eg::emulator {

namespace {

/// The machine, by this thread alone.
struct Locked {
  Emulator& e = machine();
  std::lock_guard<std::recursive_mutex> lock{e.mutex};
  Emulator* operator->() const { return &e; }
};

} // namespace

bool checked() {
#if defined(EG_EMULATOR_CHECKED)
  return true;
#else
  return false;
#endif
}

void set_schedule(Schedule schedule) {
  const Locked e;
  e->schedule = schedule;
  e->generator.seed(schedule.seed);
}

void set_shared_limit(std::size_t bytes) { Locked()->shared.limit = std::min(bytes, std::size_t{256} << 10); }
void set_memory_limit(std::size_t bytes) { Locked()->memory.limit = bytes; }
void lock_memory(bool locked) { Locked()->memory.set_locked(locked); }
MemoryUse memory_use() { return Locked()->memory.use(); }
Counts counts() { return Locked()->counts; }
void reset_counts() { Locked()->counts = {}; }
void count_traffic(bool yes) { Locked()->shadow.count_traffic(yes); }

void* device_malloc(std::size_t bytes, const char* file, unsigned line) {
  const Locked e;
  std::byte* const at = e->memory.allocate(bytes, {"device_malloc", file, line});
  e->shadow.allocated(at, bytes);
  return at;
}

void device_free(void* memory, const char* file, unsigned line) {
  if (memory == nullptr) return;
  const Locked e;
  synchronize_device();
  const std::size_t bytes = e->memory.block_at(memory, {"device_free", file, line}).bytes;
  e->memory.free(memory, {"device_free", file, line});
  e->shadow.freed(memory, bytes);
}

void device_renew(void* memory, std::size_t bytes, const char* file, unsigned line) {
  const Locked e;
  e->memory.check_range(memory, bytes, {"device_renew", file, line});
  const DeviceMemory::Open open(e->memory);
  std::memset(memory, 0xff, bytes);
  e->shadow.allocated(memory, bytes);
}

void check_device_range(const void* memory, std::size_t bytes, const char* file, unsigned line) {
  const Locked e;
  e->memory.check_range(memory, bytes, {"check_device_range", file, line});
}

void note_written(void* memory, std::size_t bytes) {
  const Locked e;
  e->shadow.written(memory, bytes);
}

void copy_to_device(void* to, const void* from, std::size_t bytes, const char* file, unsigned line) {
  const Locked e;
  synchronize_device();
  e->copy_to_device(to, from, bytes, {"copy_to_device", file, line});
}

void copy_from_device(void* to, const void* from, std::size_t bytes, const char* file, unsigned line) {
  const Locked e;
  synchronize_device();
  e->copy_from_device(to, from, bytes, {"copy_from_device", file, line});
}

void copy_on_device(void* to, const void* from, std::size_t bytes, const char* file, unsigned line) {
  const Locked e;
  synchronize_device();
  e->copy_on_device(to, from, bytes, {"copy_on_device", file, line});
}

void device_memset(void* to, int value, std::size_t bytes, const char* file, unsigned line) {
  const Locked e;
  synchronize_device();
  e->memset(to, value, bytes, {"device_memset", file, line});
}

void Emulator::copy_to_device(void* to, const void* from, std::size_t bytes, const Place& place) {
  if (bytes == 0) return;
  memory.check_range(to, bytes, place);
  if (memory.contains(from)) throw Error(words_of(place) + ": the source is device memory");
  const DeviceMemory::Open open(memory);
  std::memcpy(to, from, bytes);
  shadow.written(to, bytes);
}

void Emulator::copy_from_device(void* to, const void* from, std::size_t bytes, const Place& place) {
  if (bytes == 0) return;
  memory.check_range(from, bytes, place);
  if (memory.contains(to)) throw Error(words_of(place) + ": the destination is device memory");
  const DeviceMemory::Open open(memory);
  std::memcpy(to, from, bytes);
}

void Emulator::copy_on_device(void* to, const void* from, std::size_t bytes, const Place& place) {
  if (bytes == 0) return;
  memory.check_range(to, bytes, place);
  memory.check_range(from, bytes, place);
  const auto *a = static_cast<const std::byte*>(to), *b = static_cast<const std::byte*>(from);
  if (a < b + bytes && b < a + bytes) throw Error(words_of(place) + ": source and destination overlap");
  const DeviceMemory::Open open(memory);
  std::memcpy(to, from, bytes);
  shadow.copied(to, from, bytes);
}

void Emulator::memset(void* to, int value, std::size_t bytes, const Place& place) {
  if (bytes == 0) return;
  memory.check_range(to, bytes, place);
  const DeviceMemory::Open open(memory);
  std::memset(to, value, bytes);
  shadow.written(to, bytes);
}

} // namespace eg::emulator
