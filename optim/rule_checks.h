#pragma once
// Checks the options of the update rules. Not for users.

#include "core/base/error.h"

#include <fmt/format.h>

#include <cmath>

namespace eg::optim {

/// Throws ValueError "RULE: OPTION must be in [low, high), not value" unless it is.
inline void check_range(const char* rule, const char* option, double value, double low, double high) {
  if (!(value >= low && value < high))
    throw ValueError(fmt::format("{}: {} must be in [{}, {}), not {}", rule, option, low, high, value));
}

/// Throws ValueError "RULE: OPTION must be finite and not negative, not value" unless it is.
inline void check_not_negative(const char* rule, const char* option, double value) {
  if (!(value >= 0.0 && std::isfinite(value)))
    throw ValueError(fmt::format("{}: {} must be finite and not negative, not {}", rule, option, value));
}

} // namespace eg::optim
