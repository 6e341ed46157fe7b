#include "optim/schedule.h"

#include "core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace eg::optim {

double Schedule::at(std::int64_t step) const {
  if (step < 0) throw ValueError(fmt::format("schedule: step {} is negative", step));
  if (step < warmup) return base * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (kind == Kind::constant) return base;
  const auto done = static_cast<double>(step - warmup);
  const auto span = static_cast<double>(std::max<std::int64_t>(total_steps - warmup, 1));
  const double wave = 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(done / span, 1.0)));
  return base * (final_fraction + (1.0 - final_fraction) * wave);
}

Schedule::Kind schedule_named(const std::string& name) {
  if (name == "constant") return Schedule::Kind::constant;
  if (name == "cosine") return Schedule::Kind::cosine;
  throw ValueError(fmt::format("schedule: '{}' is not one of constant, cosine", name));
}

std::string_view name_of(Schedule::Kind kind) { return kind == Schedule::Kind::constant ? "constant" : "cosine"; }

} // namespace eg::optim
