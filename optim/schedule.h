#pragma once
// Learning-rate schedules: functions of the step.

#include <cstdint>
#include <string>

namespace eg::optim {

/// Linear warm-up from 0 over `warmup` steps, then constant or a half cosine down to final_fraction at total_steps.
struct Schedule {
  enum class Kind : std::uint8_t { constant, cosine };
  Kind kind = Kind::constant;
  double base = 1e-3;
  std::int64_t warmup = 0;
  std::int64_t total_steps = 1;
  double final_fraction = 0.0;

  /// Learning rate at step 0, 1, ...
  double at(std::int64_t step) const;
};

/// "constant" or "cosine". Throws ValueError.
Schedule::Kind schedule_named(const std::string& name);

} // namespace eg::optim
