// Races: two threads access the same bytes, one writes, and nothing orders them.
// Ordered is what one thread does, what lies on two sides of a barrier of the block, and what lies on two sides of a
// __syncwarp of both lanes. Blocks of a launch are never ordered.

#if defined(EG_EMULATOR_CHECKED)

#include "core/cuda/emulator/machine.h"

#include <algorithm>

namespace eg::emulator {

using Kind = Accessors::Kind;

Accessors Shadow::self(std::uint32_t code) const {
  const Emulator& e = machine();
  const Thread& t = *e.thread;
  return {Kind::thread, static_cast<std::uint16_t>(t.linear), static_cast<std::uint32_t>(e.block_number),
          1U << t.lane, clocks_[t.warp].tick(t.lane),         e.barriers,
          code};
}

bool Shadow::is_over(const Accessors& other) const {
  if (other.kind == Kind::none) return true;
  const Emulator& e = machine();
  if (other.kind == Kind::blocks || other.block != static_cast<std::uint32_t>(e.block_number)) return false;
  if (other.barriers != e.barriers) return true;
  const Thread& t = *e.thread;
  if (other.kind == Kind::warps || other.thread / 32U != t.warp) return false;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((other.lanes >> lane & 1U) != 0 && lane != t.lane && !clocks_[t.warp].knows(t.lane, lane, other.tick))
      return false;
  return true;
}

void Shadow::add(Accessors& to, std::uint32_t code) const {
  const Accessors now = self(code);
  if (is_over(to)) {
    to = now;
    return;
  }
  Kind kind = Kind::lanes;
  if (to.kind == Kind::blocks || to.block != now.block)
    kind = Kind::blocks;
  else if (to.kind == Kind::warps || to.thread / 32 != now.thread / 32)
    kind = Kind::warps;
  const std::uint32_t lanes = to.lanes | now.lanes, tick = std::max(to.tick, now.tick);
  to = now;
  to.kind = kind;
  to.lanes = lanes;
  to.tick = tick;
}

std::string Shadow::name(const Accessors& who) {
  switch (who.kind) {
  case Kind::none:
    return "nobody";
  case Kind::thread:
    return "thread " + std::to_string(who.thread) + " of block " + std::to_string(who.block);
  case Kind::lanes:
    return "lanes of warp " + std::to_string(who.thread / 32) + " of block " + std::to_string(who.block);
  case Kind::warps:
    return "several warps of block " + std::to_string(who.block);
  case Kind::blocks:
    return "several blocks";
  }
  return "";
}

void Shadow::race(const Accessors& other, const char* did, const char* does, Space space, const std::byte* at,
                  const void* caller) const {
  machine().fail([&] {
    const std::string where = space == Space::shared ? "shared memory, " + describe(space, at) : "device memory";
    return Finding("race in " + where + ": " + name(other) + " " + did + " at ")
           << static_cast<const void*>(image_.base + other.code) << ", this thread " + std::string(does) + " at "
           << caller << ", and no barrier lies between";
  });
}

void Shadow::check_cell(Cell& cell, Access access, Space space, const std::byte* at, const void* caller) {
  const std::uint32_t epoch = space == Space::device ? launch_ : block_;
  if (cell.epoch != epoch) {
    cell = {};
    cell.epoch = epoch;
  }
  const auto code = static_cast<std::uint32_t>(static_cast<const std::byte*>(caller) - image_.base);
  const bool atomic = access == Access::atomic || access == Access::float_atomic;
  const bool write_over = is_over(cell.write);
  if (!write_over && !(atomic && cell.atomic)) {
    const char* const does = access == Access::read ? "reads" : atomic ? "changes it by an atomic" : "writes";
    race(cell.write, cell.atomic ? "changed it by an atomic" : "wrote", does, space, at, caller);
  }
  if (access == Access::read) {
    add(cell.read, code);
    return;
  }
  if (!is_over(cell.read)) race(cell.read, "read", atomic ? "changes it by an atomic" : "writes", space, at, caller);
  if (!write_over && access == Access::float_atomic)
    machine().fail([&] {
      return Finding("float atomics without an order: " + name(cell.write) + " added at ")
             << static_cast<const void*>(image_.base + cell.write.code) << ", this thread adds at " << caller
             << ", and the sum depends on who comes first";
    });
  cell.read = {};
  cell.atomic = atomic;
  if (atomic)
    add(cell.write, code);
  else
    cell.write = self(code);
}

} // namespace eg::emulator

#endif
