#pragma once
// Computes learning rates as functions of the step.

#include <cstdint>
#include <string>
#include <string_view>

namespace eg::optim {

/// Linear warm-up from 0 over `warmup` steps, then one of
/// - constant: base;
/// - linear, cosine: down to final_fraction * base at total_steps, evenly or in half a cosine;
/// - step: base * drop_factor^floor(steps since warm-up / drop_every).
/// Warm-up step s has base * (s+1)/warmup, so the first step already moves and step warmup-1 has the full rate.
///
/// one_cycle has a warm-up of its own: from base/25 in half a cosine to base, which step warmup-1 has (warmup 0: after
/// three tenths of all steps), then in half a cosine down to final_fraction * base at step total_steps-1. Smith,
/// "Super-Convergence", 2018; phases as PyTorch has them, the momentum is not scheduled.
struct Schedule {
  enum class Kind : std::uint8_t { constant, linear, cosine, step, one_cycle };
  Kind kind = Kind::constant;
  double base = 1e-3;
  std::int64_t warmup = 0;
  std::int64_t total_steps = 1;
  double final_fraction = 0.0;
  std::int64_t drop_every = 0; ///< steps; 0: a third of those after warm-up, rounded up
  double drop_factor = 0.1;

  /// Learning rate at step 0, 1, ...; beyond total_steps its last value, but a step schedule continues. Throws
  /// ValueError for a negative step.
  double at(std::int64_t step) const;
};

/// Whether a schedule of that kind falls to final_fraction.
bool has_final_fraction(Schedule::Kind kind);

/// "constant", "linear", "cosine", "step" or "one-cycle". Throws ValueError that lists them.
Schedule::Kind schedule_named(const std::string& name);
std::string_view name_of(Schedule::Kind kind);

} // namespace eg::optim
