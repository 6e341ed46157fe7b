#include "support/extremes.h"

#include "autograd/tape.h"
#include "core/ops/list.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace eg::laws {
namespace {

double most_of(DType dtype) {
  return dtype == DType::f32 ? static_cast<double>(std::numeric_limits<float>::max())
                             : std::numeric_limits<double>::max();
}
double least_of(DType dtype) {
  return dtype == DType::f32 ? static_cast<double>(std::numeric_limits<float>::denorm_min())
                             : std::numeric_limits<double>::denorm_min();
}

} // namespace

std::vector<double> numbers(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

bool all_finite(const Tensor& x) {
  const std::vector<double> v = numbers(x);
  return std::all_of(v.begin(), v.end(), [](double e) { return std::isfinite(e); });
}

InputSet floating_inputs(const Sample& sample) {
  InputSet list;
  for (std::size_t i = 0; i < sample.in.size(); ++i)
    if (flows(sample.in[i]) && sample.in[i].numel() > 0) list.push_back(i);
  return list;
}

Sample mapped(const Sample& sample, const InputSet& which, const std::function<double(double)>& f) {
  Sample other = sample;
  for (const std::size_t i : which) {
    std::vector<double> v = numbers(sample.in[i]);
    for (double& e : v) e = f(e);
    other.in[i] = Tensor::from(v, sample.in[i].shape()).to(sample.in[i].dtype());
  }
  return other;
}

Sample times_power(const Sample& sample, const InputSet& which, int power) {
  return mapped(sample, which, [=](double x) { return std::ldexp(x, power); });
}

Tensors tried(const Evaluate& f, const Sample& sample) {
  try {
    return f(sample);
  } catch (const Error&) {
    return {};
  }
}

Tensors gradients_along(const OpDef& op, const Sample& sample, const Tensors& cotangents) {
  Tape tape;
  const Tensors y = call_row(op, sample.in, sample.attrs);
  Tensors outs, along, ins;
  for (std::size_t o = 0; o < y.size(); ++o) {
    if (!flows(y[o]) || !cotangents[o].defined()) continue;
    outs.push_back(y[o]);
    along.push_back(cotangents[o].to(y[o].dtype()));
  }
  for (const Tensor& x : sample.in)
    if (flows(x)) ins.push_back(x);
  return tape.gradient(outs, ins, along);
}

Tensors drawn_cotangents(const OpDef& op, const Sample& sample) {
  Tensors drawn = cotangents_for(outputs(op, sample));
  for (Tensor& g : drawn)
    if (g.defined()) g = g.to(DType::f32);
  return drawn;
}

namespace {

/// Powers of two at which rows behave as at infinity already, and squares and cubes are in the range of f64.
constexpr int first_power = 60, second_power = 64;

/// The element at 2^power from those at the two powers above: NaN unless these differ by a power 2^(4 d), d a multiple
/// of 1/2.
double continued(double first, double second, int power) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  if (!std::isfinite(first) || !std::isfinite(second)) return unknown;
  if (first == 0.0 && second == 0.0) return 0.0;
  for (int twice = -8; twice <= 8; ++twice) {
    const double wanted = std::ldexp(first, 2 * twice);
    if (std::abs(second - wanted) > 1e-13 * std::abs(second)) continue;
    const int by = twice * (power - first_power);
    return by % 2 == 0 ? std::ldexp(first, by / 2) : unknown;
  }
  return unknown;
}

} // namespace

Tensors continued_to(const Evaluate& f, const Sample& wide, const InputSet& which, int power) {
  const Tensors first = tried(f, times_power(wide, which, first_power));
  const Tensors second = tried(f, times_power(wide, which, second_power));
  if (first.size() != second.size()) return {};
  Tensors far(first.size());
  for (std::size_t o = 0; o < first.size(); ++o) {
    if (!flows(first[o])) continue;
    std::vector<double> at = numbers(first[o]);
    const std::vector<double> further = numbers(second[o]);
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = continued(at[i], further[i], power);
    far[o] = Tensor::from(at, first[o].shape());
  }
  return far;
}

std::string far_difference(const Tensor& got, const Tensor& wanted, DType dtype, const FarBound& bound, int& compared) {
  const std::vector<double> y = numbers(got), right = numbers(wanted);
  double largest = 0;
  const auto in_range = [&](double e) {
    return std::isfinite(e) && std::abs(e) <= bound.part_of_range * most_of(dtype);
  };
  for (const double e : right) largest = in_range(e) ? std::max(largest, std::abs(e)) : largest;
  const double allowed = bound.relative * std::max(largest, bound.terms) + bound.absolute;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (!in_range(right[i])) continue;
    ++compared;
    if (!(std::abs(y[i] - right[i]) <= allowed))
      return fmt::format("element {} is {:.6g} instead of {:.6g}", i, y[i], right[i]);
  }
  return {};
}

FarBound far_bound(DType dtype) { return {dtype == DType::f32 ? 5e-6 : 5e-12, 64.0 * least_of(dtype), 0.0, 0.99}; }

std::string_view not_far(const OpDef& op, DType dtype, int power) {
  if (is_backward(op)) return "what a forward pass saved would contradict the scaled input";
  if (&op == &fmod_op || &op == &remainder_op) return "what is left of a quotient beyond the digits of the type";
  if (&op == &attention_qkv_op && 2 * power > (dtype == DType::f32 ? 120 : 1000))
    return "scores are products of two scaled factors";
  return {};
}

std::vector<int> far_powers(DType dtype) {
  if (dtype == DType::f32) return {40, 62, 100, 120};
  return {300, 520, 900, 1000};
}

std::string far_failure(const std::string& where, const InputSet& which, const std::string& change,
                        const std::string& what) {
  return fmt::format("{}: inputs {} {}: {}", where, fmt::join(which, ", "), change, what);
}

} // namespace eg::laws
