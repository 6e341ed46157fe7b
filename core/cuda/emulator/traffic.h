#pragma once
// Counts the transactions of a block: sectors of device memory and passes over the banks of shared memory.

#include "core/cuda/emulator/emulator.h"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace eg::emulator {

/// Accesses of one instruction by the lanes of a warp, each for the same time, make one request.
class Traffic {
public:
  void add(const void* code, unsigned thread, std::uintptr_t address, std::size_t size, bool shared);
  /// Adds what the block did to the counts, and forgets it.
  void count(Counts& counts);
  void forget();

private:
  struct Item {
    std::uintptr_t code;
    std::uint32_t visit, warp;
    std::uintptr_t address;
    std::uint32_t size;
    bool shared;
  };
  static void count_sectors(const Item* begin, const Item* end, Counts& counts);
  static void count_passes(const Item* begin, const Item* end, Counts& counts);

  std::vector<Item> items_;
  std::unordered_map<std::uint64_t, std::uint32_t> visits_; // by instruction and thread
};

} // namespace eg::emulator
