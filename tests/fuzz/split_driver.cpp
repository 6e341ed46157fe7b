// Damaged messages drawn at random, with any compiler: build/.../tests/fuzz/split_calls SECONDS [SEED].

#include "core/random.h"
#include "fuzz/split_damage.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  const double seconds = argc > 1 ? std::atof(argv[1]) : 10.0;
  eg::RandomStream random({argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1, 0});
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  unsigned long long rounds = 0;
  for (; Clock::now() < end; ++rounds) eg::fuzz::one_damaged_round(random);
  std::printf("%llu rounds, nothing found\n", rounds);
  return 0;
}
