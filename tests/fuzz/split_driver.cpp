// Damaged messages of split learning and of STIP drawn at random, with any compiler: build/.../tests/fuzz/split_calls
// SECONDS [SEED].

#include "core/random.h"
#include "fuzz/split_damage.h"
#include "fuzz/stip_targets.h"

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
  const std::vector<eg::Bytes> samples = eg::fuzz::stip_samples();
  for (; Clock::now() < end; ++rounds) {
    eg::fuzz::one_damaged_round(random);
    eg::fuzz::stip_service(eg::fuzz::damaged_row(samples, random));
  }
  std::printf("%llu rounds, nothing found\n", rounds);
  return 0;
}
