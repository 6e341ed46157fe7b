#include "core/memory/block_cache.h"

#include "core/base/error.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <new>

namespace eg {
namespace {

/// No block is larger: the next power of two and sums of two sizes can still be counted.
constexpr std::size_t most_bytes = SIZE_MAX / 4;

/// Sizes are rounded up to 1/8 of their power of two, so that at most 12.5 % is wasted and blocks of nearly equal
/// sizes serve each other. `bytes` is at most most_bytes.
std::size_t bucket_size(std::size_t bytes) {
  constexpr std::size_t smallest = 256;
  if (bytes <= smallest) return smallest;
  const std::size_t step = std::max(std::bit_floor(bytes) / 8, allocator::alignment);
  return (bytes + step - 1) / step * step;
}

} // namespace

BlockCache::Block BlockCache::take(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  // Before rounding: a size near the end of what can be counted would wrap to a small one.
  if (bytes > std::min(limit_, most_bytes)) refuse(bytes);
  const std::size_t size = reuses_ ? bucket_size(bytes) : std::max<std::size_t>(bytes, 1);
  if (size > bytes_left()) refuse(size);
  std::byte* block = reuse(size);
  if (block == nullptr) block = from_source(size);
  stats_.live_bytes += size;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
  return {block, size};
}

void BlockCache::give_back(Block block) noexcept {
  const std::scoped_lock lock(mutex_);
  stats_.live_bytes -= block.size;
  if (!reuses_) return source_.give_back(block.data);
  try {
    free_.push_back(block);
    stats_.cached_bytes += block.size;
  } catch (const std::bad_alloc&) {
    source_.give_back(block.data);
  }
}

void BlockCache::release() {
  const std::scoped_lock lock(mutex_);
  release_locked();
}

AllocatorStats BlockCache::stats() const {
  const std::scoped_lock lock(mutex_);
  return stats_;
}

void BlockCache::reset_peak() {
  const std::scoped_lock lock(mutex_);
  stats_.peak_bytes = stats_.live_bytes;
}

std::size_t BlockCache::limit() const {
  const std::scoped_lock lock(mutex_);
  return limit_;
}

void BlockCache::set_limit(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  limit_ = bytes;
}

std::size_t BlockCache::bytes_left() const { return limit_ - std::min(limit_, stats_.live_bytes); }

void BlockCache::refuse(std::size_t size) const {
  throw MemoryError(
      fmt::format("{}: {} more bytes do not fit: {} are in use and the limit is {}, {}; use a smaller batch "
                  "or model",
                  source_.name(), size, stats_.live_bytes, limit_, source_.limit_origin(limit_)));
}

/// The newest free block of exactly this bucket: the one most likely still in a processor's cache.
std::byte* BlockCache::reuse(std::size_t size) {
  for (std::size_t i = free_.size(); i-- > 0;) {
    if (free_[i].size != size) continue;
    std::byte* const block = free_[i].data;
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
    stats_.cached_bytes -= size;
    ++stats_.reuses;
    return block;
  }
  return nullptr;
}

std::byte* BlockCache::from_source(std::size_t size) {
  // Cached blocks of other sizes count against the memory too: they are freed first when the limit is near.
  if (stats_.cached_bytes > bytes_left() - size) release_locked();
  std::byte* block = source_.take(size);
  if (block == nullptr && stats_.cached_bytes > 0) { // the source gives less than the limit says
    release_locked();
    block = source_.take(size);
  }
  if (block == nullptr)
    throw MemoryError(fmt::format("{}: the system has no {} more bytes; {} are in use; {}", source_.name(), size,
                                  stats_.live_bytes, source_.refusal()));
  ++stats_.system_calls;
  return block;
}

void BlockCache::release_locked() {
  for (const Block& block : free_) source_.give_back(block.data);
  free_.clear();
  stats_.cached_bytes = 0;
}

} // namespace eg
