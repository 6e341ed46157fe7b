#include "nn/rotary.h"

#include "core/exact/elementary.h"
#include "core/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace eg::nn {
namespace {

std::int64_t dims_of(const RotaryConfig& config, std::int64_t head_dim) {
  return config.dims == 0 ? head_dim : config.dims;
}

/// One more than the largest position.
std::int64_t reach(const Tensor& positions) {
  std::int64_t most = 0;
  for (const std::int64_t p : positions.to_vector<std::int64_t>()) most = std::max(most, p + 1);
  return most;
}

double base_for(const RotaryConfig& c, const Tensor& positions, std::int64_t dims) {
  if (c.dynamic_factor == 0.0) return c.base;
  const std::int64_t n = reach(positions);
  if (n <= c.trained_positions) return c.base;
  const double longer = c.dynamic_factor * static_cast<double>(n) / static_cast<double>(c.trained_positions);
  const auto d = static_cast<double>(dims);
  return c.base * elementary::pow(longer - c.dynamic_factor + 1.0, d / (d - 2.0));
}

} // namespace

void check(const RotaryConfig& r, std::int64_t head_dim) {
  const std::int64_t dims = dims_of(r, head_dim);
  if (dims <= 0 || dims > head_dim || dims % 2 != 0)
    throw ValueError(fmt::format("rotary: dims must be even and at most head_dim {}, not {}", head_dim, dims));
  const auto positive = [](const char* field, double value) {
    if (!(value > 0.0 && std::isfinite(value)))
      throw ValueError(fmt::format("rotary: {} must be positive and finite, not {}", field, value));
  };
  positive("base", r.base);
  positive("amplitude", r.amplitude);
  if (!r.frequencies.empty() && static_cast<std::int64_t>(r.frequencies.size()) != dims / 2)
    throw ValueError(fmt::format("rotary: frequencies must be one for each of {} pairs, there are {}", dims / 2,
                                 r.frequencies.size()));
  if (r.dynamic_factor == 0.0) return;
  positive("dynamic_factor", r.dynamic_factor);
  positive("trained_positions", static_cast<double>(r.trained_positions));
  if (dims <= 2) throw ValueError("rotary: dynamic scaling needs more than two dims");
}

Tensor turn(const Tensor& x, const Tensor& positions, const RotaryConfig& r) {
  const std::int64_t dims = dims_of(r, x.size(-1));
  Tensor y = rotary(x, positions,
                    {.base = base_for(r, positions, dims),
                     .interleaved = r.interleaved,
                     .dims = r.dims,
                     .heads_first = false,
                     .frequencies = r.frequencies});
  if (r.amplitude == 1.0) return y;
  if (dims == x.size(-1)) return y * r.amplitude;
  return concat({slice(y, -1, 0, dims) * r.amplitude, slice(y, -1, dims, x.size(-1))}, -1);
}

std::vector<double> rotary_frequencies(double base, std::int64_t dims) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < dims / 2; ++i)
    all.push_back(elementary::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dims)));
  return all;
}

std::vector<double> linear_scaled(std::vector<double> frequencies, double factor) {
  for (double& f : frequencies) f /= factor;
  return frequencies;
}

std::vector<double> llama3_scaled(std::vector<double> frequencies, const Llama3Scaling& s) {
  for (double& f : frequencies) {
    const double turns = s.trained * f / (2.0 * std::numbers::pi); // within the trained positions
    const double kept = std::clamp((turns - s.low) / (s.high - s.low), 0.0, 1.0);
    f = (1.0 - kept) * f / s.factor + kept * f;
  }
  return frequencies;
}

std::vector<double> yarn_scaled(double base, std::int64_t dims, const YarnScaling& s) {
  const auto d = static_cast<double>(dims);
  // The pair, counted from 0 and not whole, that turns so many times within the trained positions.
  const auto pair_of = [&](double turns) {
    return d * elementary::log(s.trained / (turns * 2.0 * std::numbers::pi)) / (2.0 * elementary::log(base));
  };
  double first = pair_of(s.fast), last = pair_of(s.slow);
  if (s.whole_pairs) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, d - 1.0);
  if (first == last) last += 0.001;
  std::vector<double> all = rotary_frequencies(base, dims);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double slowed = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
    all[i] = slowed * all[i] / s.factor + (1.0 - slowed) * all[i];
  }
  return all;
}

double yarn_amplitude(double factor, double scale) {
  return factor <= 1.0 ? 1.0 : 0.1 * scale * elementary::log(factor) + 1.0;
}

} // namespace eg::nn
