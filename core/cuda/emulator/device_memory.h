#pragma once
// Gives out the emulated device's memory: a range of addresses whose blocks end at guard pages.

#include "core/cuda/emulator/emulator.h"

#include <map>
#include <vector>

namespace eg::emulator {

/// Throws Error and OutOfMemory without waiting for anything.
class DeviceMemory {
public:
  struct Block {
    std::size_t bytes = 0;
    std::byte* range = nullptr; ///< pages of the block, and a page behind them that stays closed
    std::size_t range_bytes = 0;
    bool queued_free = false; ///< free_async was called
    Place place;              ///< where it was allocated
  };

  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::byte* allocate(std::size_t bytes, const Place& place);
  void free(void* memory, const Place& place);
  /// The block that begins at `memory`; throws Error.
  Block& block_at(void* memory, const Place& place);
  /// Throws Error where the range is not in one block.
  void check_range(const void* memory, std::size_t bytes, const Place& place) const;
  /// True for every address that device memory has or could have.
  bool contains(const void* at) const { return at >= base_ && at < base_ + reserved_; }
  /// "40 bytes behind the block of 4000 bytes allocated at t.cpp:3", for an address that no block holds.
  std::string describe(const void* at) const;

  std::byte* base() const { return base_; }
  std::size_t reserved() const { return reserved_; }
  const std::map<std::byte*, Block>& blocks() const { return blocks_; }

  MemoryUse use() const { return use_; }
  std::size_t limit = std::size_t{80} << 30;

  void set_locked(bool locked);
  /// While it lives, device memory can be read and written although it is locked.
  class Open {
  public:
    explicit Open(DeviceMemory& memory) : memory_(memory) { memory_.open(true); }
    ~Open() { memory_.open(false); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

  private:
    DeviceMemory& memory_;
  };

private:
  void reserve();
  void open(bool yes);
  static void protect(std::byte* at, const Block& block, bool accessible);

  std::byte* base_ = nullptr;
  std::size_t reserved_ = 0, used_ = 0;
  std::map<std::byte*, Block> blocks_;
  std::map<std::size_t, std::vector<std::byte*>> free_ranges_; // by size; the checked build uses no address twice
  MemoryUse use_;
  bool locked_ = false;
  int opened_ = 0;
};

} // namespace eg::emulator
