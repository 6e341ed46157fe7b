#include "training/elsewhere.h"

namespace eg::training {

RandomKey dropout_key(std::uint64_t seed, std::int64_t step) {
  constexpr std::uint64_t draw_dropout = 4; // of a run's sequences
  return RandomKey{seed, 0}.fold(draw_dropout).fold(static_cast<std::uint64_t>(step));
}

} // namespace eg::training
