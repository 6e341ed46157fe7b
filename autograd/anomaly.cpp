#include "autograd/anomaly.h"

#include "core/device/transfer.h"
#include "core/strided.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg {
namespace {

/// What the values of a tensor are like.
struct Range {
  double min = std::numeric_limits<double>::infinity(); // of the finite values
  double max = -std::numeric_limits<double>::infinity();
  std::int64_t nans = 0;
  std::int64_t infinities = 0;
};

template <class T> Range range_of_values(const Tensor& t) {
  Range range;
  const T* values = t.data<T>();
  for_each_offset(t.shape(), t.strides(), [&](std::int64_t offset) {
    const auto x = static_cast<double>(values[offset]);
    if (std::isnan(x)) {
      ++range.nans;
    } else if (std::isinf(x)) {
      ++range.infinities;
    } else {
      range.min = std::min(range.min, x);
      range.max = std::max(range.max, x);
    }
  });
  return range;
}

Range range_of(const Tensor& t) {
  const Tensor here = device::on_cpu(t);
  Range range;
  visit_dtype(t.dtype(), [&]<class T>() { range = range_of_values<T>(here); });
  return range;
}

/// The quick question, asked of everything. x - x is 0 for a finite x and NaN otherwise. Several sums, because an
/// addition has to wait for the one before it.
template <class T> bool all_finite(const T* values, std::int64_t count) {
  std::array<T, 8> sums{};
  const std::int64_t whole = count - count % 8;
  for (std::int64_t i = 0; i < whole; i += 8)
    for (std::size_t k = 0; k < 8; ++k)
      sums[k] += values[i + static_cast<std::int64_t>(k)] - values[i + static_cast<std::int64_t>(k)];
  for (std::int64_t i = whole; i < count; ++i) sums[0] += values[i] - values[i];
  return std::all_of(sums.begin(), sums.end(), [](T sum) { return sum == T{0}; });
}

bool surely_finite(const Tensor& t) {
  if (!t.is_contiguous()) return false;
  const Tensor here = device::on_cpu(t);
  if (t.dtype() == DType::f32) return all_finite(here.data<float>(), t.numel());
  return t.dtype() == DType::f64 && all_finite(here.data<double>(), t.numel());
}

bool is_anomalous(const Tensor& t, const AnomalyOptions& options) {
  if (!t.has_storage() || !is_floating(t.dtype()) || surely_finite(t)) return false;
  const Range range = range_of(t);
  return range.nans > 0 || (options.infinities && range.infinities > 0);
}

std::string shaped(const Tensor& t) { return fmt::format("{} {}", name_of(t.dtype()), t.shape().str()); }

std::string counts(const Tensor& t) {
  const Range range = range_of(t);
  return fmt::format("{} NaN and {} infinite of {} values", range.nans, range.infinities, t.numel());
}

/// "x f32 [4, 3]: 0.5 to 3, 0 not finite"
std::string range_text(const std::string& name, const Tensor& t) {
  if (!t.has_storage()) return fmt::format("{}: not given", name);
  const Range range = range_of(t);
  const std::int64_t bad = range.nans + range.infinities;
  const std::string values =
      range.min <= range.max ? fmt::format("{:.6g} to {:.6g}", range.min, range.max) : std::string("no finite value");
  return fmt::format("{} {}: {}, {} not finite", name, shaped(t), values, bad);
}

std::string at_place(std::string_view place) { return place.empty() ? "" : fmt::format(" (at {})", place); }

} // namespace

DetectAnomaly::DetectAnomaly(AnomalyOptions options) : options_(options) { open_recorder(this); }

DetectAnomaly::~DetectAnomaly() { close_recorder(this); }

void DetectAnomaly::record(const Event& event) {
  if (event.op != nullptr && event.op->view != nullptr) return;
  for (std::size_t o = 0; o < event.out.size(); ++o) {
    if (!is_anomalous(event.out[o], options_)) continue;
    const std::string op(event.op != nullptr ? event.op->name : std::string_view(event.custom->name));
    const std::string output = event.op != nullptr ? output_name(*event.op, o) : fmt::format("output {}", o);
    std::string text = fmt::format("anomaly: {} gave {} in {} {}{}", op, counts(event.out[o]), output,
                                   shaped(event.out[o]), at_place(current_place()));
    for (std::size_t i = 0; i < event.in.size(); ++i)
      text += "; " + range_text(event.op != nullptr ? "input " + input_name(*event.op, i) : fmt::format("input {}", i),
                                event.in[i]);
    throw NumericError(text);
  }
}

void DetectAnomaly::rule_done(const RuleEvent& event) {
  for (std::size_t o = 0; o < event.grad.size(); ++o)
    if (event.grad[o].defined() && is_anomalous(event.grad[o], options_))
      throw NumericError(fmt::format("anomaly: the cotangent that arrived at output {} of {}{} holds {}", o, event.name,
                                     at_place(event.place), counts(event.grad[o])));
  for (std::size_t i = 0; i < event.gradients.size(); ++i) {
    if (!event.gradients[i].defined() || !is_anomalous(event.gradients[i], options_)) continue;
    std::string text = fmt::format("anomaly: the rule of {} gave {} in the gradient of input {}{}", event.name,
                                   counts(event.gradients[i]), i, at_place(event.place));
    for (std::size_t o = 0; o < event.grad.size(); ++o)
      text += "; " + range_text(fmt::format("cotangent {}", o), event.grad[o]);
    throw NumericError(text);
  }
}

} // namespace eg
