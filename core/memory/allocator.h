#pragma once
// Allocates 64-byte-aligned blocks and caches freed ones. Freed blocks are reused, because touching fresh pages costs
// ten times more than writing warm ones; a steady-state training step asks the system for nothing. With
// EQUIGRAD_REUSE_MEMORY=0 in the environment no block is kept, and each has the size that was asked for, for valgrind
// and AddressSanitizer.

#include <cstddef>
#include <cstdint>
#include <memory>

namespace eg {

/// What the allocator has done so far; sizes in bytes.
struct AllocatorStats {
  std::size_t live_bytes = 0;     ///< handed out and not yet returned
  std::size_t peak_bytes = 0;     ///< largest live_bytes since the last reset_peak
  std::size_t cached_bytes = 0;   ///< returned and kept for reuse
  std::uint64_t system_calls = 0; ///< blocks asked from the system
  std::uint64_t reuses = 0;       ///< requests served from the cache
};

namespace allocator {

inline constexpr std::size_t alignment = 64;

/// A block of at least `bytes` bytes, uninitialised, 64-byte aligned, returned to the cache when the last owner is
/// destroyed. Throws MemoryError when live_bytes would pass the limit or the system refuses; the message says how much
/// was asked, how much is live and what the limit is.
std::shared_ptr<std::byte> allocate(std::size_t bytes);

AllocatorStats stats();
void reset_peak();
/// Gives every cached block back to the system.
void release_cache();
/// Most bytes that may be live at once. Default: the memory of the machine or of its cgroup, whichever is less.
std::size_t limit();
void set_limit(std::size_t bytes);

} // namespace allocator
} // namespace eg
