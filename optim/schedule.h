#pragma once
// Learning-rate schedules: functions of the step.

#include <cstdint>
#include <string>
#include <string_view>

namespace eg::optim {

/// Linear warm-up from 0 over `warmup` steps, then constant or a half cosine down to final_fraction at total_steps.
/// Warm-up step s has base (s+1)/warmup, so the first step already moves and step warmup-1 has the full rate.
struct Schedule {
  enum class Kind : std::uint8_t { constant, cosine };
  Kind kind = Kind::constant;
  double base = 1e-3;
  std::int64_t warmup = 0;
  std::int64_t total_steps = 1;
  double final_fraction = 0.0;

  /// Learning rate at step 0, 1, ...; beyond total_steps what it was there. Throws ValueError for a negative step.
  double at(std::int64_t step) const;
};

/// "constant" or "cosine". Throws ValueError.
Schedule::Kind schedule_named(const std::string& name);
std::string_view name_of(Schedule::Kind kind);

} // namespace eg::optim
