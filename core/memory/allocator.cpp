#include "core/memory/allocator.h"

#include "core/base/error.h"
#include "core/base/out_of_memory.h"
#include "core/threads/at_fork.h"

#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace eg::allocator {
namespace {

/// No block is larger: the next power of two and sums of two sizes can still be counted.
constexpr std::size_t most_bytes = SIZE_MAX / 4;

/// Sizes are rounded up to 1/8 of their power of two, so that at most 12.5 % is wasted and blocks of nearly equal
/// sizes serve each other. `bytes` is at most most_bytes.
std::size_t bucket_size(std::size_t bytes) {
  constexpr std::size_t smallest = 256;
  if (bytes <= smallest) return smallest;
  const std::size_t step = std::max(std::bit_floor(bytes) / 8, alignment);
  return (bytes + step - 1) / step * step;
}

struct Block {
  std::byte* data;
  std::size_t size;
};

/// The process's cache of free blocks.
class Cache {
public:
  struct Taken {
    std::byte* block;
    std::size_t size;
  };

  Taken take(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    // Before rounding: a size near the end of what can be counted would wrap to a small one.
    if (bytes > std::min(limit_, most_bytes)) refuse(bytes);
    const std::size_t size = bucket_size(bytes);
    if (size > room()) refuse(size);
    std::byte* block = reuse(size);
    if (block == nullptr) block = from_system(size);
    stats_.live_bytes += size;
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
    return {block, size};
  }

  void give_back(std::byte* block, std::size_t size) noexcept {
    const std::scoped_lock lock(mutex_);
    stats_.live_bytes -= size;
    try {
      free_.push_back({block, size});
      stats_.cached_bytes += size;
    } catch (const std::bad_alloc&) {
      std::free(block);
    }
  }

  void release() {
    const std::scoped_lock lock(mutex_);
    release_locked();
  }

  AllocatorStats stats() {
    const std::scoped_lock lock(mutex_);
    return stats_;
  }
  void reset_peak() {
    const std::scoped_lock lock(mutex_);
    stats_.peak_bytes = stats_.live_bytes;
  }
  std::size_t limit() {
    const std::scoped_lock lock(mutex_);
    return limit_;
  }
  void set_limit(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    limit_ = bytes;
  }

  /// Held over a fork(), so that the child does not inherit it from a thread that it does not have.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

private:
  /// Bytes that may still be handed out.
  std::size_t room() const { return limit_ - std::min(limit_, stats_.live_bytes); }

  [[noreturn]] void refuse(std::size_t size) const {
    throw MemoryError(fmt::format("allocator: {} more bytes do not fit: {} are in use and the limit is {}, {}; use a "
                                  "smaller batch or model",
                                  size, stats_.live_bytes, limit_,
                                  limit_ == machine_memory() ? "which this machine, or its container, has"
                                                             : "which was set (set_memory_limit raises it)"));
  }

  /// The newest free block of exactly this bucket: the one most likely still in cache.
  std::byte* reuse(std::size_t size) {
    for (std::size_t i = free_.size(); i-- > 0;) {
      if (free_[i].size != size) continue;
      std::byte* block = free_[i].data;
      free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
      stats_.cached_bytes -= size;
      ++stats_.reuses;
      return block;
    }
    return nullptr;
  }

  std::byte* from_system(std::size_t size) {
    // Cached blocks of other sizes count against the machine too: they are freed first when the limit is near.
    if (stats_.cached_bytes > room() - size) release_locked();
    constexpr std::size_t huge_page = std::size_t{2} << 20;
    const std::size_t align = size >= huge_page ? huge_page : alignment;
    const auto ask = [&] { return std::aligned_alloc(align, (size + align - 1) / align * align); };
    void* block = ask();
    if (block == nullptr && stats_.cached_bytes > 0) { // the system gives less than the limit says
      release_locked();
      block = ask();
    }
    if (block == nullptr)
      throw MemoryError(fmt::format("allocator: the system has no {} more bytes; {} are in use; {}", size,
                                    stats_.live_bytes, memory_limit_words()));
    if (size >= huge_page) madvise(block, size, MADV_HUGEPAGE);
    ++stats_.system_calls;
    return static_cast<std::byte*>(block);
  }

  void release_locked() {
    for (const Block& block : free_) std::free(block.data);
    free_.clear();
    stats_.cached_bytes = 0;
  }

  std::mutex mutex_;
  std::vector<Block> free_;
  AllocatorStats stats_;
  std::size_t limit_ = machine_memory();
};

/// Never destroyed: tensors in static storage may outlive it otherwise.
Cache& cache() {
  alignas(Cache) static std::array<std::byte, sizeof(Cache)> room;
  static Cache* const instance = [] {
    const auto unlock = [] { cache().unlock(); };
    at_fork([] { cache().lock(); }, unlock, unlock);
    return std::construct_at(reinterpret_cast<Cache*>(room.data()));
  }();
  return *instance;
}

} // namespace

std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  const auto [block, taken] = cache().take(bytes);
  const std::size_t size = taken;
  return {block, [size](std::byte* p) { cache().give_back(p, size); }};
}

AllocatorStats stats() { return cache().stats(); }
void reset_peak() { cache().reset_peak(); }
void release_cache() { cache().release(); }
std::size_t limit() { return cache().limit(); }
void set_limit(std::size_t bytes) { cache().set_limit(bytes); }

} // namespace eg::allocator
