#pragma once
// Provides scratch memory for the tasks of one loop.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace eg {

/// Buffers of equal size, as many as tasks can run at the same time, taken from the allocator before the loop starts.
/// What a loop allocates does not depend on which threads start in time, so that a step that was done once finds
/// everything in the cache. Buffers are aligned like the allocator's blocks and are not initialised.
class ScratchPool {
public:
  /// For a loop of `tasks` tasks that need `bytes` each. Throws MemoryError as the allocator does.
  ScratchPool(std::int64_t tasks, std::size_t bytes);
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  /// Holds one buffer while it lives.
  class Buffer {
  public:
    ~Buffer() {
      if (pool_ != nullptr) pool_->give_back(data_);
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    /// Null where buffers have no bytes.
    std::byte* data() const { return data_; }

  private:
    friend class ScratchPool;
    Buffer(ScratchPool* pool, std::byte* data) : pool_(pool), data_(data) {}
    ScratchPool* pool_; ///< null for a buffer without bytes
    std::byte* data_;
  };
  /// May be called by several threads. Buffers beyond those of the start (a thread that waits in one task may start
  /// another) come from the allocator.
  Buffer take();

private:
  void give_back(std::byte* buffer) noexcept;

  std::size_t bytes_, count_ = 0;
  std::vector<std::shared_ptr<std::byte>> blocks_;
  std::mutex mutex_;
  std::vector<std::byte*> free_;
};

} // namespace eg
