// Streams: work that runs when it is asked for, or as late as CUDA may run it.

#include "core/cuda/emulator/machine.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <new>

namespace eg::emulator {

/// Pinned memory that queued work uses.
struct PinnedUse {
  std::uint64_t position = 0;
  const std::byte *begin = nullptr, *end = nullptr;
  Place place;
};

struct Stream::Queue {
  Temper temper = Temper::eager;
  std::deque<std::function<void()>> waiting;
  std::uint64_t queued = 0, done = 0; ///< how many so far
  std::deque<PinnedUse> pinned;

  void run_to(std::uint64_t position) {
    while (done < position && !waiting.empty()) {
      const std::function<void()> work = std::move(waiting.front());
      waiting.pop_front();
      ++done;
      while (!pinned.empty() && pinned.front().position <= done) pinned.pop_front();
      try {
        work();
      } catch (...) {
        waiting.clear();
        pinned.clear();
        done = queued;
        throw;
      }
    }
  }
  const PinnedUse* use_of(const void* at, std::size_t bytes) const {
    const auto* const begin = static_cast<const std::byte*>(at);
    for (const PinnedUse& use : pinned)
      if (begin < use.end && use.begin < begin + bytes) return &use;
    return nullptr;
  }
  void uses(const void* at, std::size_t bytes, const Place& place) {
    const auto* const begin = static_cast<const std::byte*>(at);
    pinned.push_back({queued, begin, begin + bytes, place});
  }
};

Stream::Stream(Temper temper) : queue_(std::make_unique<Queue>()) {
  queue_->temper = temper;
  const std::lock_guard lock(machine().mutex);
  machine().streams.push_back(this);
}

Stream::~Stream() {
  const std::lock_guard lock(machine().mutex);
  std::erase(machine().streams, this);
}

void Stream::enqueue(std::function<void()> work) {
  const std::lock_guard lock(machine().mutex);
  ++queue_->queued;
  queue_->waiting.push_back(std::move(work));
  if (queue_->temper == Temper::eager) queue_->run_to(queue_->queued);
}

void Stream::synchronize() {
  const std::lock_guard lock(machine().mutex);
  queue_->run_to(queue_->queued);
}

void synchronize_device() {
  Emulator& e = machine();
  const std::lock_guard lock(e.mutex);
  for (std::size_t i = 0; i < e.streams.size(); ++i) e.streams[i]->synchronize();
}

void enqueue(Stream* stream, std::function<void()> work) {
  if (stream != nullptr) return stream->enqueue(std::move(work));
  const std::lock_guard lock(machine().mutex);
  synchronize_device();
  work();
}

void Stream::copy_to_device(void* to, const void* from, std::size_t bytes, const char* file, unsigned line) {
  Emulator& e = machine();
  const std::lock_guard lock(e.mutex);
  const Place place{"copy_to_device", file, line};
  if (e.is_pinned(from, bytes)) {
    enqueue([=, &e] { e.copy_to_device(to, from, bytes, place); });
    if (queue_->done < queue_->queued) queue_->uses(from, bytes, place);
    return;
  }
  if (e.memory.contains(from)) throw Error(words_of(place) + ": the source is device memory");
  const auto* const begin = static_cast<const std::byte*>(from);
  enqueue([&e, to, values = std::vector<std::byte>(begin, begin + bytes), place] {
    e.copy_to_device(to, values.data(), values.size(), place);
  });
}

void Stream::copy_from_device(void* to, const void* from, std::size_t bytes, const char* file, unsigned line) {
  Emulator& e = machine();
  const std::lock_guard lock(e.mutex);
  const Place place{"copy_from_device", file, line};
  const bool pinned = e.is_pinned(to, bytes);
  if (pinned && queue_->temper == Temper::late && queue_->use_of(to, bytes) == nullptr) std::memset(to, 0xff, bytes);
  enqueue([=, &e] { e.copy_from_device(to, from, bytes, place); });
  if (!pinned)
    synchronize();
  else if (queue_->done < queue_->queued)
    queue_->uses(to, bytes, place);
}

void Stream::copy_on_device(void* to, const void* from, std::size_t bytes, const char* file, unsigned line) {
  enqueue([=] { machine().copy_on_device(to, from, bytes, {"copy_on_device", file, line}); });
}

void Stream::memset(void* to, int value, std::size_t bytes, const char* file, unsigned line) {
  enqueue([=] { machine().memset(to, value, bytes, {"memset", file, line}); });
}

void* Stream::malloc_async(std::size_t bytes, const char* file, unsigned line) {
  return device_malloc(bytes, file, line);
}

void Stream::free_async(void* memory, const char* file, unsigned line) {
  if (memory == nullptr) return;
  Emulator& e = machine();
  const std::lock_guard lock(e.mutex);
  const Place place{"free_async", file, line};
  DeviceMemory::Block& block = e.memory.block_at(memory, place);
  if (block.queued_free) throw Error(words_of(place) + ": the block was freed before");
  block.queued_free = true;
  enqueue([=, &e, bytes = block.bytes] {
    e.memory.free(memory, place);
    e.shadow.freed(memory, bytes);
  });
}

Event Stream::record() {
  const std::lock_guard lock(machine().mutex);
  return {this, queue_->queued};
}

void Stream::wait(const Event& event) {
  enqueue([event] { emulator::synchronize(event); });
}

void synchronize(const Event& event) {
  Emulator& e = machine();
  const std::lock_guard lock(e.mutex);
  for (Stream* const stream : e.streams)
    if (stream == event.stream) return stream->run_to(event.position);
}

void Stream::run_to(std::uint64_t position) { queue_->run_to(position); }

bool Emulator::is_pinned(const void* at, std::size_t bytes) const {
  auto it = pinned.upper_bound(const_cast<std::byte*>(static_cast<const std::byte*>(at)));
  if (it == pinned.begin()) return false;
  --it;
  return static_cast<const std::byte*>(at) + bytes <= it->first + it->second;
}

void* pinned_malloc(std::size_t bytes) {
  Emulator& e = machine();
  const std::lock_guard lock(e.mutex);
  auto* const at = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{256}));
  e.pinned.emplace(at, bytes);
  return at;
}

void pinned_free(void* memory, const char* file, unsigned line) {
  if (memory == nullptr) return;
  Emulator& e = machine();
  const std::lock_guard lock(e.mutex);
  const Place place{"pinned_free", file, line};
  const auto it = e.pinned.find(static_cast<std::byte*>(memory));
  if (it == e.pinned.end()) throw Error(words_of(place) + ": no pinned memory, or freed before");
  for (const Stream* stream : e.streams)
    if (const PinnedUse* use = stream->queue_->use_of(memory, it->second))
      throw Error(words_of(place) + ": the memory is still used by " + words_of(use->place) +
                  ", which waits in a stream");
  e.pinned.erase(it);
  ::operator delete (memory, std::align_val_t{256});
}

} // namespace eg::emulator
