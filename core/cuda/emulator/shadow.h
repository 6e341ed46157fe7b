#pragma once
// Tracks what is known of every byte that kernels can reach: allocated, written, and who accessed it last.
// The build without hooks knows nothing; its functions do nothing.

#include "core/cuda/emulator/running.h"

#include <cstddef>
#include <cstdint>

#if defined(EG_EMULATOR_CHECKED)
#include "core/cuda/emulator/report.h"
#include "core/cuda/emulator/traffic.h"
#include "core/cuda/emulator/warp_clock.h"

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>
#endif

namespace eg::emulator {

#if defined(EG_EMULATOR_CHECKED)

/// The threads that accessed some bytes last, as exactly as races need it.
struct Accessors {
  enum class Kind : std::uint8_t { none, thread, lanes, warps, blocks };
  Kind kind = Kind::none;
  std::uint16_t thread = 0; ///< one of them, by its number in the block
  std::uint32_t block = 0;
  std::uint32_t lanes = 0;    ///< of its warp, for Kind::lanes
  std::uint32_t tick = 0;     ///< of its warp's clock
  std::uint32_t barriers = 0; ///< how many the block had passed
  std::uint32_t code = 0;     ///< where the last of them did it
};

/// What happened to a word, or a byte, in this launch (device memory) or block (shared memory).
struct Cell {
  std::uint32_t epoch = 0; ///< of that launch or block
  bool atomic = false;     ///< the writes
  Accessors write, read;
};

/// What is known of 4 KiB.
struct Page {
  static constexpr std::size_t bytes = 4096;
  enum : std::uint8_t { allocated = 1, initialised = 2 };
  std::array<std::uint8_t, bytes> flags{};
  unsigned shift = 2; ///< a cell is for 1 << shift bytes
  std::vector<Cell> cells;

  Cell* cell(std::size_t offset);
  /// From a cell a word to a cell a byte.
  void split();
};

class Shadow {
public:
  /// Fresh memory that nobody wrote.
  void allocated(const void* at, std::size_t bytes);
  void freed(const void* at, std::size_t bytes);
  /// By the host.
  void written(const void* at, std::size_t bytes);
  /// What was written of the source is written of the destination.
  void copied(const void* to, const void* from, std::size_t bytes);

  /// `code`: an address in the program or library that holds the kernel.
  void start_launch(const void* code);
  void start_block();
  void add_shared(const void* at, std::size_t bytes);
  void end_block();
  void sync_warp(unsigned warp, unsigned mask) { clocks_[warp].sync(mask); }
  void count_traffic(bool yes) { traffic_on_ = yes; }

  /// Checks an access of the thread that runs. `caller` is the address that the access returns to.
  void look(const void* address, std::size_t size, Access access, const void* caller, bool aligned = true);

private:
  enum class Space : std::uint8_t { device, shared, own };
  Space space_of(const std::byte* at, std::size_t size, bool writes, const void* caller) const;
  Page* find(std::uintptr_t address);
  Page& make(std::uintptr_t address);
  void mark(const void* at, std::size_t bytes, std::uint8_t clear, std::uint8_t set);
  void check_bytes(const Page* page, const std::byte* at, std::size_t size, bool writes, Space space,
                   const void* caller) const;
  void check_cell(Cell& cell, Access access, Space space, const std::byte* at, const void* caller);

  bool is_over(const Accessors& other) const;
  void add(Accessors& to, std::uint32_t code) const;
  Accessors self(std::uint32_t code) const;
  [[noreturn]] void race(const Accessors& other, const char* did, const char* does, Space space, const std::byte* at,
                         const void* caller) const;
  static std::string name(const Accessors& who);
  static std::string describe(Space space, const std::byte* at);

  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  std::array<std::pair<std::uintptr_t, Page*>, 64> recent_{};
  std::uint32_t launch_ = 0, block_ = 0; ///< epochs
  std::array<WarpClock, 32> clocks_;
  Image image_;
  // What of shared memory the block has.
  std::size_t shared_static_ = 0, shared_dynamic_bytes_ = 0;
  const std::byte* shared_dynamic_ = nullptr;
  Traffic traffic_;
  bool traffic_on_ = false;
};

#else

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

#endif

} // namespace eg::emulator
