#include "core/memory/allocator.h"

#include "core/base/error.h"
#include "core/base/out_of_memory.h"
#include "core/memory/block_cache.h"
#include "core/threads/at_fork.h"

#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <string_view>
#include <sys/mman.h>

namespace eg::allocator {
namespace {

/// The memory of the machine.
class MachineMemory final : public BlockSource {
public:
  std::byte* take(std::size_t size) override {
    constexpr std::size_t huge_page = std::size_t{2} << 20;
    void* block = nullptr;
    if (posix_memalign(&block, size >= huge_page ? huge_page : alignment, size) != 0) return nullptr;
    if (size >= huge_page) madvise(block, size, MADV_HUGEPAGE);
    return static_cast<std::byte*>(block);
  }
  void give_back(std::byte* block) noexcept override { std::free(block); }
  std::string name() const override { return "allocator"; }
  std::string limit_origin(std::size_t limit) const override {
    return limit == machine_memory() ? "which this machine, or its container, has"
                                     : "which was set (set_memory_limit raises it)";
  }
  std::string refusal() const override { return memory_limit_words(); }
};

/// EQUIGRAD_REUSE_MEMORY, by default true. A block that is larger than its tensor, or kept after it, hides wrong
/// accesses from valgrind and AddressSanitizer. Throws ValueError for anything but 0 and 1.
bool environment_reuses() {
  const char* const set = std::getenv("EQUIGRAD_REUSE_MEMORY");
  const std::string_view value = set != nullptr ? set : "1";
  if (value != "0" && value != "1")
    throw ValueError(fmt::format("EQUIGRAD_REUSE_MEMORY is '{}'; it can be 0 or 1", value));
  return value == "1";
}

struct Process {
  MachineMemory memory;
  BlockCache cache{memory, machine_memory(), environment_reuses()};
};

/// The process's cache of free blocks. Never destroyed: tensors in static storage may outlive it otherwise.
BlockCache& cache() {
  alignas(Process) static std::array<std::byte, sizeof(Process)> room;
  static Process* const instance = [] {
    Process* const made = std::construct_at(reinterpret_cast<Process*>(room.data()));
    const auto unlock = [] { cache().unlock(); };
    at_fork([] { cache().lock(); }, unlock, unlock);
    return made;
  }();
  return instance->cache;
}

} // namespace

std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  const BlockCache::Block block = cache().take(bytes);
  const std::size_t size = block.size;
  return {block.data, [size](std::byte* p) { cache().give_back({p, size}); }};
}

AllocatorStats stats() { return cache().stats(); }
void reset_peak() { cache().reset_peak(); }
void release_cache() { cache().release(); }
std::size_t limit() { return cache().limit(); }
void set_limit(std::size_t bytes) { cache().set_limit(bytes); }

} // namespace eg::allocator
