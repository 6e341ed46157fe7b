#pragma once
// Orders the accesses of a warp's lanes: which of another lane's accesses are over for a lane, by __syncwarp alone.

#include <algorithm>
#include <array>
#include <cstdint>

namespace eg::emulator {

/// A tick is one __syncwarp of some lanes. An access carries the tick that its lane took part in last.
class WarpClock {
public:
  void reset() {
    if (tick_ == 1) return;
    *this = WarpClock();
  }
  std::uint32_t tick(unsigned lane) const { return ticks_[lane]; }
  /// True where accesses of lane `other` that carry `tick` are over for `lane`.
  bool knows(unsigned lane, unsigned other, std::uint32_t tick) const { return known_[lane][other] >= tick; }

  void sync(unsigned mask) {
    const std::uint32_t before = tick_++;
    std::array<std::uint32_t, 32> joined{};
    for (unsigned lane = 0; lane < 32; ++lane) {
      if ((mask >> lane & 1U) == 0) continue;
      for (unsigned other = 0; other < 32; ++other) joined[other] = std::max(joined[other], known_[lane][other]);
    }
    for (unsigned lane = 0; lane < 32; ++lane)
      if ((mask >> lane & 1U) != 0) joined[lane] = before;
    for (unsigned lane = 0; lane < 32; ++lane) {
      if ((mask >> lane & 1U) == 0) continue;
      known_[lane] = joined;
      ticks_[lane] = tick_;
    }
  }

private:
  std::uint32_t tick_ = 1;
  std::array<std::uint32_t, 32> ticks_ = [] {
    std::array<std::uint32_t, 32> ones{};
    ones.fill(1);
    return ones;
  }();
  std::array<std::array<std::uint32_t, 32>, 32> known_{}; ///< by lane: the last tick known of each other
};

} // namespace eg::emulator
