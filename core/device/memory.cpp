// The cached memory of each device.

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/device/module.h"
#include "core/memory/block_cache.h"
#include "core/threads/at_fork.h"

#include <array>
#include <atomic>
#include <fmt/format.h>
#include <memory>
#include <mutex>

namespace eg::device {
namespace {

class DeviceMemory final : public BlockSource {
public:
  explicit DeviceMemory(Device device) : device_(device) {}
  std::byte* take(std::size_t size) override {
    void* block = nullptr;
    require(device_, "allocation", module_table().allocate(device_.index, size, &block));
    return static_cast<std::byte*>(block);
  }
  void give_back(std::byte* block) noexcept override {
    if (module_table().release(device_.index, block) != nullptr) return; // a device that failed says so at its next use
  }
  std::string name() const override { return device_.str(); }
  std::string limit_origin(std::size_t) const override { return "of 95 % of its memory or as it was set"; }
  std::string refusal() const override { return "other programs may use its memory too"; }

private:
  Device device_;
};

struct DeviceCache {
  DeviceMemory source;
  BlockCache cache;
  DeviceCache(Device device, std::size_t limit) : source(device), cache(source, limit, module_table().reuses_blocks) {}
};

/// Memory of a device was used before fork(), and this is the child: nothing goes back there, whose locks another
/// thread of the parent may have held.
std::atomic<bool> used = false, left_alone = false;
const bool watching = [] {
  at_fork(nullptr, nullptr, [] { left_alone = used.load(); });
  return true;
}();

/// Throws DeviceError for a number that no device has.
std::size_t free_bytes(Device device) {
  require_device(device);
  return list_devices()[device.index].free_bytes;
}

/// The cache of a device, made when it is first used and never destroyed: tensors in static storage may outlive it
/// otherwise.
BlockCache& cache_of(Device device) {
  module_table(); // refuses a child of fork(), before its locks are asked for
  if (device.is_cpu()) throw ValueError("device: the CPU's memory is asked of the allocator");
  static std::mutex mutex;
  static std::array<DeviceCache*, Device::max_index + 1> caches{};
  const std::scoped_lock lock(mutex);
  DeviceCache*& cache = caches[device.index];
  if (cache == nullptr)
    cache =
        std::make_unique<DeviceCache>(device, static_cast<std::size_t>(static_cast<double>(free_bytes(device)) * 0.95))
            .release();
  return cache->cache;
}

} // namespace

std::shared_ptr<std::byte> allocate(Device device, std::size_t bytes) {
  BlockCache& cache = cache_of(device);
  used = true;
  const BlockCache::Block block = cache.take(bytes);
  const std::size_t size = block.size;
  return {block.data, [&cache, size](std::byte* p) {
            if (!left_alone) cache.give_back({p, size});
          }};
}

AllocatorStats memory_stats(Device device) { return cache_of(device).stats(); }
void reset_peak_memory(Device device) { cache_of(device).reset_peak(); }
void release_cached_memory(Device device) { cache_of(device).release(); }
std::size_t memory_limit(Device device) { return cache_of(device).limit(); }
void set_memory_limit(Device device, std::size_t bytes) { cache_of(device).set_limit(bytes); }

} // namespace eg::device
