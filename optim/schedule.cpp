#include "optim/schedule.h"

#include "core/base/error.h"
#include "core/base/named_values.h"
#include "core/exact/elementary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace eg::optim {
namespace {

using Kind = Schedule::Kind;

constexpr NamedValues<Kind, 5> kinds{{{"constant", Kind::constant},
                                      {"linear", Kind::linear},
                                      {"cosine", Kind::cosine},
                                      {"step", Kind::step},
                                      {"one-cycle", Kind::one_cycle}}};

/// Half a cosine from 1 at share 0 to 0 at share 1, and 0 beyond.
double half_cosine(double share) { return 0.5 * (1.0 + elementary::cos(std::numbers::pi * std::min(share, 1.0))); }

/// `done` of `span`, as a share of at most 1.
double share_of(std::int64_t done, std::int64_t span) {
  return std::min(static_cast<double>(done) / static_cast<double>(std::max<std::int64_t>(span, 1)), 1.0);
}

double one_cycle(const Schedule& s, std::int64_t step) {
  constexpr double first = 1.0 / 25.0, rising = 0.3;
  const std::int64_t rise =
      s.warmup > 0 ? s.warmup : std::max<std::int64_t>(std::llround(rising * static_cast<double>(s.total_steps)), 1);
  const std::int64_t top = rise - 1;
  if (step < top) return s.base * (1.0 - (1.0 - first) * half_cosine(share_of(step, top)));
  const double wave = half_cosine(share_of(step - top, s.total_steps - 1 - top));
  return s.base * (s.final_fraction + (1.0 - s.final_fraction) * wave);
}

double stepwise(const Schedule& s, std::int64_t done) {
  const std::int64_t third = (std::max<std::int64_t>(s.total_steps - s.warmup, 1) + 2) / 3;
  const std::int64_t every = s.drop_every > 0 ? s.drop_every : third;
  return s.base * elementary::pow(s.drop_factor, static_cast<double>(done / every));
}

} // namespace

double Schedule::at(std::int64_t step) const {
  if (step < 0) throw ValueError(fmt::format("schedule: step {} is negative", step));
  if (kind == Kind::one_cycle) return one_cycle(*this, step);
  if (step < warmup) return base * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (kind == Kind::constant) return base;
  if (kind == Kind::step) return stepwise(*this, step - warmup);
  const double share = share_of(step - warmup, total_steps - warmup);
  const double height = kind == Kind::cosine ? half_cosine(share) : 1.0 - share;
  return base * (final_fraction + (1.0 - final_fraction) * height);
}

bool has_final_fraction(Kind kind) { return kind != Kind::constant && kind != Kind::step; }

Kind schedule_named(const std::string& name) { return value_named(kinds, "schedule", name); }

std::string_view name_of(Kind kind) { return name_in(kinds, kind); }

} // namespace eg::optim
