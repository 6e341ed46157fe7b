#include "core/memory/allocator.h"

#include "core/base/out_of_memory.h"
#include "core/memory/block_cache.h"
#include "core/threads/at_fork.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <sys/mman.h>

namespace eg::allocator {
namespace {

/// The memory of the machine.
class MachineMemory final : public BlockSource {
public:
  std::byte* take(std::size_t size) override {
    constexpr std::size_t huge_page = std::size_t{2} << 20;
    const std::size_t align = size >= huge_page ? huge_page : alignment;
    void* const block = std::aligned_alloc(align, (size + align - 1) / align * align);
    if (block != nullptr && size >= huge_page) madvise(block, size, MADV_HUGEPAGE);
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

struct Process {
  MachineMemory memory;
  BlockCache cache{memory, machine_memory()};
};

/// The process's cache of free blocks. Never destroyed: tensors in static storage may outlive it otherwise.
BlockCache& cache() {
  alignas(Process) static std::array<std::byte, sizeof(Process)> room;
  static Process* const instance = [] {
    const auto unlock = [] { cache().unlock(); };
    at_fork([] { cache().lock(); }, unlock, unlock);
    return std::construct_at(reinterpret_cast<Process*>(room.data()));
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
