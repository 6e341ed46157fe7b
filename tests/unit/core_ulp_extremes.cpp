// What rows do with numbers that are not ordinary.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "support/extremes.h"
#include "unit/core_ulp.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Kinds of numbers in the outputs: "0, finite, +Inf, -Inf, NaN" as far as there are any.
std::string kinds_of(const std::vector<Tensor>& out) {
  bool zero = false, finite = false, plus = false, minus = false, not_a_number = false;
  for (const Tensor& y : out) {
    if (!is_floating(y.dtype())) continue;
    for (const double v : y.to(DType::f64).to_vector<double>()) {
      not_a_number = not_a_number || std::isnan(v);
      plus = plus || v == infinity;
      minus = minus || v == -infinity;
      zero = zero || v == 0.0;
      finite = finite || (std::isfinite(v) && v != 0.0);
    }
  }
  std::string text;
  const auto add = [&](bool there, const char* word) {
    if (there) text += (text.empty() ? "" : ", ") + std::string(word);
  };
  add(zero, "0");
  add(finite, "finite");
  add(plus, "+Inf");
  add(minus, "-Inf");
  add(not_a_number, "NaN");
  return text.empty() ? "index" : text;
}

/// The sample with all elements of one input equal to `value`.
Sample filled(const Sample& sample, std::size_t at, double value) {
  Sample other = sample;
  other.in[at] = Tensor::full(sample.in[at].shape(), value, sample.in[at].dtype());
  return other;
}

std::string kinds_after(const OpDef& op, const Sample& sample) {
  try {
    return kinds_of(call(op, sample.in, sample.attrs));
  } catch (const Error&) {
    return "refused";
  }
}

std::vector<std::size_t> floating_inputs(const Sample& sample) {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < sample.in.size(); ++i)
    if (sample.in[i].defined() && is_floating(sample.in[i].dtype())) list.push_back(i);
  return list;
}

/// NaN in each input in turn.
void look_at_nan(const OpDef& op, const Sample& sample, Extremes& found) {
  std::vector<std::string> texts;
  bool same = true;
  for (const std::size_t i : floating_inputs(sample)) {
    const std::string kinds = kinds_after(op, filled(sample, i, nan));
    const std::string name(op.inputs[op.variadic ? 0 : i].name);
    const bool stops = kinds.find("NaN") == std::string::npos && kinds != "index" && kinds != "refused";
    if (stops && &op != &nansum_op) // which leaves NaN out
      found.broken.push_back(fmt::format("NaN in {} gives {}", name, kinds));
    same = same && (texts.empty() || texts.front().substr(texts.front().find(": ")) == ": " + kinds);
    texts.push_back(name + ": " + kinds);
  }
  if (same && !texts.empty()) {
    found.nan = texts.front().substr(texts.front().find(": ") + 2);
    return;
  }
  for (const std::string& text : texts) found.nan += (found.nan.empty() ? "" : "; ") + text;
}

/// Where the plain loops in f64 are finite in the type, the row must be: also where nothing is known of their values.
bool overflows(const OpDef& op, const Sample& sample) {
  const std::vector<Tensor> got = call(op, sample.in, sample.attrs);
  const std::vector<Tensor> wanted = plain_loops(op, sample);
  for (std::size_t o = 0; o < got.size(); ++o) {
    if (!is_floating(got[o].dtype())) continue;
    const std::vector<double> y = got[o].to(DType::f64).to_vector<double>();
    const std::vector<double> exact = wanted[o].to(DType::f64).to_vector<double>();
    const double most = 0.99 * (got[o].dtype() == DType::f32 ? static_cast<double>(std::numeric_limits<float>::max())
                                                             : std::numeric_limits<double>::max());
    for (std::size_t i = 0; i < y.size(); ++i)
      if (!std::isfinite(y[i]) && std::abs(exact[i]) <= most) return true;
  }
  return false;
}

bool all_finite(const Sample& sample) {
  for (const std::size_t i : floating_inputs(sample))
    for (const double v : sample.in[i].to(DType::f64).to_vector<double>())
      if (!std::isfinite(v)) return false;
  return true;
}

/// What the row gives for a large first input, against the plain loops: in f32 at that input, in f64, where squares
/// would leave their type as well, continued from moderate inputs. Empty if it is right.
std::string wrong_when_large(const OpDef& op, const Sample& sample, DType dtype, int power) {
  const laws::InputSet first = {floating_inputs(sample).front()};
  const Sample large = laws::times_power(sample, first, power);
  const auto loops = [&](const Sample& s) { return plain_loops(op, s); };
  const std::vector<Tensor> got = call(op, large.in, large.attrs);
  const std::vector<Tensor> wanted =
      dtype == DType::f32 ? loops(large) : laws::continued_to(loops, sample, first, power);
  for (std::size_t o = 0; o < wanted.size(); ++o) {
    if (!is_floating(got[o].dtype()) || !wanted[o].defined()) continue;
    int compared = 0;
    const std::string text = laws::far_difference(got[o], wanted[o], dtype, laws::far_bound(dtype), compared);
    if (!text.empty()) return text;
  }
  return overflows(op, large) ? "overflows needlessly" : "";
}

void look_at_large(const OpDef& op, const Sample& sample, DType dtype, Extremes& found) {
  std::string kinds;
  for (const int power : laws::far_powers(dtype)) {
    const Sample large = laws::times_power(sample, {floating_inputs(sample).front()}, power);
    if (!all_finite(large)) continue;
    if (laws::not_far(op, dtype, power).empty())
      if (const std::string text = wrong_when_large(op, sample, dtype, power); !text.empty())
        found.broken.push_back(fmt::format("the first input times 2^{}: {}", power, text));
    kinds = kinds_after(op, large);
  }
  found.large = kinds;
}

/// The plain loops on subnormal inputs. Squares would vanish in f64: rows with f(c x) = c f(x) are evaluated at 2^600
/// x.
std::vector<Tensor> loops_of_small(const OpDef& op, const Sample& small, DType dtype) {
  const bool homogeneous = &op == &std_op || &op == &norm_op;
  if (dtype == DType::f32 || !homogeneous) return plain_loops(op, small);
  std::vector<Tensor> out = plain_loops(op, scaled(small, 0x1p600));
  for (Tensor& y : out) {
    std::vector<double> v = y.to_vector<double>();
    for (double& e : v) e *= 0x1p-600;
    y = Tensor::from(v, y.shape());
  }
  return out;
}

/// Subnormal inputs: as near to the plain loops as to ordinary ones, up to the spacing of subnormal numbers.
void look_at_subnormal(const OpDef& op, const Sample& sample, DType dtype, Extremes& found) {
  const Sample small = scaled(sample, std::ldexp(1.0, dtype == DType::f32 ? -140 : -1064));
  const std::vector<Tensor> got = call(op, small.in, small.attrs);
  const std::vector<Tensor> wanted = loops_of_small(op, small, dtype);
  const double smallest = dtype == DType::f32 ? static_cast<double>(std::numeric_limits<float>::denorm_min())
                                              : std::numeric_limits<double>::denorm_min();
  const double u = dtype == DType::f32 ? 0x1p-24 : 0x1p-53;
  for (std::size_t o = 0; o < got.size(); ++o) {
    if (!is_floating(got[o].dtype())) continue;
    const std::vector<double> y = got[o].to(DType::f64).to_vector<double>();
    const std::vector<double> exact = wanted[o].to(DType::f64).to_vector<double>();
    double largest = 0;
    for (const double e : exact) largest = std::isfinite(e) ? std::max(largest, std::abs(e)) : largest;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double most = static_cast<double>(std::numeric_limits<float>::max());
      if (!std::isfinite(exact[i]) || (dtype == DType::f32 && std::abs(exact[i]) > most)) continue;
      if (std::abs(y[i] - exact[i]) <= 64.0 * (u * largest + smallest)) continue;
      found.broken.push_back(fmt::format("subnormal inputs give {:.6g} instead of {:.6g}", y[i], exact[i]));
      found.subnormal = "lost";
      return;
    }
  }
  found.subnormal = kinds_of(got);
}

void look_at_constant(const OpDef& op, const Sample& sample, Extremes& found) {
  const std::size_t first = floating_inputs(sample).front();
  const Sample equal = filled(sample, first, 0.7);
  found.constant = kinds_after(op, equal);
  const bool wrong = found.constant.find("NaN") != std::string::npos || found.constant.find("Inf") != std::string::npos;
  if (wrong && kinds_of(plain_loops(op, equal)) != found.constant)
    found.broken.push_back("equal elements give " + found.constant);
}

void look_at_mask(const OpDef& op, const std::vector<Sample>& samples, Extremes& found) {
  for (const Sample& sample : samples)
    for (std::size_t i = 0; i < sample.in.size(); ++i) {
      const bool mask = i < op.inputs.size() && op.inputs[i].name == "mask" && sample.in[i].defined();
      if (!mask || !found.masked.empty()) continue;
      found.masked = kinds_after(op, filled(sample, i, is_floating(sample.in[i].dtype()) ? -infinity : 0.0));
      if (found.masked.find("NaN") != std::string::npos) found.broken.push_back("fully masked rows give NaN");
    }
}

Extremes extremes_in(const OpDef& op, DType dtype) {
  Extremes found;
  const std::vector<Sample> samples = measurable_samples(op, dtype);
  if (samples.empty()) return found;
  const Sample& sample = samples.front();
  const std::size_t first = floating_inputs(sample).front();
  look_at_nan(op, sample, found);
  found.plus = kinds_after(op, filled(sample, first, infinity));
  found.minus = kinds_after(op, filled(sample, first, -infinity));
  look_at_large(op, sample, dtype, found);
  look_at_subnormal(op, sample, dtype, found);
  look_at_constant(op, sample, found);
  look_at_mask(op, samples, found);
  return found;
}

} // namespace

Extremes extremes_of(const OpDef& op) {
  Extremes single = extremes_in(op, DType::f32);
  const Extremes twice = extremes_in(op, DType::f64);
  const auto join = [](std::string& a, const std::string& b) {
    if (a != b) a += " (f64: " + b + ")";
  };
  join(single.nan, twice.nan);
  join(single.plus, twice.plus);
  join(single.minus, twice.minus);
  join(single.large, twice.large);
  join(single.subnormal, twice.subnormal);
  join(single.constant, twice.constant);
  join(single.masked, twice.masked);
  for (const std::string& text : twice.broken) single.broken.push_back("f64: " + text);
  return single;
}

} // namespace eg::test
