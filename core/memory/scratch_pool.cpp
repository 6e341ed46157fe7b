#include "core/memory/scratch_pool.h"

#include "core/memory/allocator.h"
#include "core/threads/parallel.h"

#include <algorithm>

namespace eg {

ScratchPool::ScratchPool(std::int64_t tasks, std::size_t bytes)
    : bytes_((bytes + allocator::alignment - 1) / allocator::alignment * allocator::alignment) {
  const auto count = static_cast<std::size_t>(std::clamp<std::int64_t>(tasks, 0, parallel::threads()));
  if (bytes_ == 0 || count == 0) return;
  blocks_.push_back(allocator::allocate(count * bytes_));
  count_ = count;
  free_.reserve(count);
  for (std::size_t i = count; i-- > 0;) free_.push_back(blocks_.front().get() + i * bytes_);
}

ScratchPool::Buffer ScratchPool::take() {
  if (bytes_ == 0) return {nullptr, nullptr};
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) {
    free_.reserve(++count_); // so that giving back never fails
    blocks_.push_back(allocator::allocate(bytes_));
    return {this, blocks_.back().get()};
  }
  std::byte* const buffer = free_.back();
  free_.pop_back();
  return {this, buffer};
}

void ScratchPool::give_back(std::byte* buffer) noexcept {
  const std::scoped_lock lock(mutex_);
  free_.push_back(buffer);
}

} // namespace eg
