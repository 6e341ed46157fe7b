#pragma once
// Tracks what is known of every byte that kernels can reach: allocated, written, and who accessed it last.
// The build without hooks knows nothing; its functions do nothing.

#include "core/cuda/emulator/words.h"

#include <cstddef>
#include <cstdint>

namespace eg::emulator {

class Shadow {
public:
  void allocated(const void*, std::size_t) {}
  void freed(const void*, std::size_t) {}
  void written(const void*, std::size_t) {}
  void copied(const void*, const void*, std::size_t) {}
  void start_launch(const void*) {}
  void start_block() {}
  void add_shared(const void*, std::size_t) {}
  void end_block() {}
  void sync_warp(unsigned, unsigned) {}
  void count_traffic(bool) {}
};

} // namespace eg::emulator
