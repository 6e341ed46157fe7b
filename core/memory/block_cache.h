#pragma once
// Keeps freed blocks of memory for reuse, for the CPU and for devices.

#include "core/memory/allocator.h"

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

namespace eg {

/// Where a cache gets its blocks.
class BlockSource {
public:
  virtual ~BlockSource() = default;
  /// A block of `size` bytes, nullptr where there is none. Throws DeviceError for a device that fails.
  virtual std::byte* take(std::size_t size) = 0;
  virtual void give_back(std::byte* block) noexcept = 0;
  /// "allocator", "cuda:0".
  virtual std::string name() const = 0;
  /// What the limit is, for messages: "which was set (set_memory_limit raises it)".
  virtual std::string limit_origin(std::size_t limit) const = 0;
  /// What the source says when it gives less than the limit: "the limit is 4096 bytes".
  virtual std::string refusal() const = 0;
};

/// Freed blocks by size, newest first, so that a steady training step gets the same blocks each time. Safe for threads.
class BlockCache {
public:
  struct Block {
    std::byte* data;
    std::size_t size;
  };

  /// `reuses` false: every block has the size that was asked for, and goes back to the source at once.
  BlockCache(BlockSource& source, std::size_t limit, bool reuses = true)
      : source_(source), reuses_(reuses), limit_(limit) {}
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// At least `bytes` bytes, uninitialised. Throws MemoryError when live_bytes would pass the limit or the source has
  /// no more; the message says how much was asked, how much is live and what the limit is.
  Block take(std::size_t bytes);
  void give_back(Block block) noexcept;
  /// Gives every cached block back to the source.
  void release();

  AllocatorStats stats() const;
  void reset_peak();
  std::size_t limit() const;
  void set_limit(std::size_t bytes);

  /// Held over a fork(), so that the child does not inherit it from a thread that it does not have.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

private:
  std::size_t bytes_left() const; ///< that may still be handed out
  [[noreturn]] void refuse(std::size_t size) const;
  std::byte* reuse(std::size_t size);
  std::byte* from_source(std::size_t size);
  void release_locked();

  BlockSource& source_;
  bool reuses_;
  mutable std::mutex mutex_;
  std::vector<Block> free_;
  AllocatorStats stats_;
  std::size_t limit_;
};

} // namespace eg
