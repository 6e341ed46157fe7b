// Values far from ordinary, held to values: what a row does at large offsets and with large inputs follows from what
// its plain loops, and its tape in f64, do with ordinary ones.

#include "autograd/tape.h"
#include "core/ops.h"
#include "support/extremes.h"
#include "support/law_tools.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <string_view>

namespace eg::laws {
namespace {

double unit_of(DType dtype) { return dtype == DType::f32 ? 0x1p-24 : 0x1p-53; }
double most_of(DType dtype) {
  return dtype == DType::f32 ? static_cast<double>(std::numeric_limits<float>::max())
                             : std::numeric_limits<double>::max();
}
double least_of(DType dtype) {
  return dtype == DType::f32 ? static_cast<double>(std::numeric_limits<float>::denorm_min())
                             : std::numeric_limits<double>::denorm_min();
}

double normal_of(DType dtype) {
  return dtype == DType::f32 ? static_cast<double>(std::numeric_limits<float>::min())
                             : std::numeric_limits<double>::min();
}

std::vector<double> numbers(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

/// The sample with f(x) in place of the elements of some inputs, rounded to their type.
template <class F> Sample mapped(const Sample& sample, const InputSet& which, F f) {
  Sample other = sample;
  for (const std::size_t i : which) {
    std::vector<double> v = numbers(sample.in[i]);
    for (double& e : v) e = f(e);
    other.in[i] = Tensor::from(v, sample.in[i].shape()).to(sample.in[i].dtype());
  }
  return other;
}

InputSet floating_inputs(const Sample& sample) {
  InputSet list;
  for (std::size_t i = 0; i < sample.in.size(); ++i)
    if (flows(sample.in[i]) && sample.in[i].numel() > 0) list.push_back(i);
  return list;
}

/// Outputs, or gradients along given cotangents, as f64 tensors; undefined where there is none.
using Evaluate = std::function<Tensors(const Sample&)>;

/// Nothing where the row refuses the numbers.
Tensors tried(const Evaluate& f, const Sample& sample) {
  try {
    return f(sample);
  } catch (const Error&) {
    return {};
  }
}

/// Largest difference of elements that are numbers, relative to the largest of `b`.
double difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = numbers(a), y = numbers(b);
  double most = 0, largest = 0;
  for (const double e : y) largest = std::max(largest, std::abs(e));
  for (std::size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x[i] - y[i]));
  return largest > 0 ? most / largest : most;
}

bool all_finite(const Tensor& x) {
  const std::vector<double> v = numbers(x);
  return std::all_of(v.begin(), v.end(), [](double e) { return std::isfinite(e); });
}

/// What one comparison says about itself when it fails.
struct Case {
  const OpDef& op;
  const Sample& sample;
  DType dtype;
  const InputSet& which;
  std::string change; ///< "plus 1024"
  std::string text(const std::string& what) const {
    return fmt::format("{}: inputs {} {}: {}", where(op, sample, dtype), fmt::join(which, ", "), change, what);
  }
};

/// Gradients of the row along `cotangents`, converted to the sample's type.
Tensors gradients_along(const OpDef& op, const Sample& sample, const Tensors& cotangents) {
  Tape tape;
  const Tensors y = call(op, sample.in, sample.attrs);
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

// --- offsets ---

/// Rows that round a mean, or a product with the offset, to the type, and so know a difference no better than that;
/// those of the second list round it to f64. Backward rows subtract such means as well.
constexpr std::array<std::string_view, 5> means_in_the_type = {"layer_norm", "group_norm", "instance_norm",
                                                               "scaled_dot_product_attention", "attention_qkv"};
constexpr std::array<std::string_view, 4> means_in_f64 = {"batch_norm", "center", "var", "std"};

template <std::size_t N> bool listed(const std::array<std::string_view, N>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

/// What rounding alone may change when `offset` is added.
double offset_bound(const OpDef& op, DType dtype, double offset) {
  const double strict = dtype == DType::f32 ? 5e-6 : 5e-13;
  const bool rounds_mean = op.name.ends_with("_backward") || listed(means_in_the_type, op.name) ||
                           (dtype == DType::f64 && listed(means_in_f64, op.name));
  return rounds_mean ? strict + 32.0 * unit_of(dtype) * std::abs(offset) : strict;
}

/// Numbers that sixteenths can be added to without rounding, up to the end of what the type resolves.
std::vector<double> offsets_of(DType dtype) {
  if (dtype == DType::f32) return {0x1p10, -0x1p18};
  return {0x1p10, -0x1p30, 0x1p47};
}

struct OffsetCheck {
  const OpDef& op;
  DType dtype;
  Verdict& verdict;

  /// Outputs (or gradients) of the plain loops that three small offsets do not change.
  std::vector<bool> unchanged(const Evaluate& f, const Sample& wide, const InputSet& which, const Tensors& base) const {
    std::vector<bool> same(base.size());
    for (std::size_t o = 0; o < base.size(); ++o)
      same[o] = flows(base[o]) && base[o].numel() > 0 && all_finite(base[o]);
    for (const double c : {1.0, -3.0, 1024.0}) {
      const Tensors moved = tried(f, mapped(wide, which, [&](double x) { return x + c; }));
      for (std::size_t o = 0; o < same.size(); ++o)
        same[o] = same[o] && o < moved.size() && difference(moved[o], base[o]) < 1e-9;
    }
    return same;
  }

  void compare(const Evaluate& f, const Sample& sample, const InputSet& which, const Tensors& right,
               const std::vector<bool>& same, const char* what) const {
    for (const double c : offsets_of(dtype)) {
      const double bound = offset_bound(op, dtype, c);
      if (bound > 0.05) continue;
      const Tensors got = f(mapped(sample, which, [&](double x) { return x + c; }));
      for (std::size_t o = 0; o < same.size(); ++o) {
        if (!same[o] || !got[o].defined()) continue;
        ++verdict.checked;
        const double error = difference(got[o], right[o]);
        if (!(error <= bound))
          verdict.fail(Case{op, sample, dtype, which, fmt::format("plus {:g}", c)}.text(
              fmt::format("{} {} changes by {:.2e} (bound {:.0e})", what, o, error, bound)));
      }
    }
  }

  void run(const Sample& drawn, const InputSet& which) const {
    const auto sixteenths = [](double x) { return std::round(16.0 * x) / 16.0; };
    const Sample sample = mapped(packed_copy(drawn), floating_inputs(drawn), sixteenths);
    const Sample wide = converted(sample, DType::f64);
    const auto loops = [&](const Sample& s) { return reference_outputs(op, s); };
    const Tensors right = tried(loops, wide);
    const std::vector<bool> same = unchanged(loops, wide, which, right);
    if (std::none_of(same.begin(), same.end(), [](bool b) { return b; })) return;
    compare([&](const Sample& s) { return outputs(op, s); }, sample, which, right, same, "output");
    if (!differentiable(op, sample)) return;
    Tensors cotangents = drawn_cotangents(op, sample);
    for (std::size_t o = 0; o < same.size(); ++o)
      if (!same[o]) cotangents[o] = Tensor();
    const auto along = [&](const Sample& s) { return gradients_along(op, s, cotangents); };
    const Tensors slopes = along(wide);
    compare(along, sample, which, slopes, unchanged(along, wide, which, slopes), "gradient");
  }
};

} // namespace

Verdict offset_law(const OpDef& op) {
  Verdict verdict;
  for (const DType dtype : {DType::f64, DType::f32})
    each_sample(op, dtype, verdict, [&](const Sample& sample) {
      const InputSet floats = floating_inputs(sample);
      const OffsetCheck check{op, dtype, verdict};
      for (const std::size_t i : floats) check.run(sample, {i});
      if (floats.size() >= 2 && !op.name.ends_with("_backward")) check.run(sample, {floats[0], floats[1]});
    });
  return verdict;
}

// --- large inputs ---

Sample times_power(const Sample& sample, const InputSet& which, int power) {
  return mapped(sample, which, [=](double x) { return std::ldexp(x, power); });
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

Tensors continued_to(const std::function<Tensors(const Sample&)>& f, const Sample& wide, const InputSet& which,
                     int power) {
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
  if (op.name.ends_with("_backward")) return "what a forward pass saved would contradict the scaled input";
  if (op.name == "fmod" || op.name == "remainder") return "what is left of a quotient beyond the digits of the type";
  if (op.name == "attention_qkv" && 2 * power > (dtype == DType::f32 ? 120 : 1000))
    return "scores are products of two scaled factors";
  return {};
}

std::vector<int> far_powers(DType dtype) {
  if (dtype == DType::f32) return {40, 62, 100, 120};
  return {300, 520, 900, 1000};
}

namespace {

double largest_of(const Tensor& x) {
  double largest = 0;
  for (const double e : numbers(x)) largest = std::max(largest, std::abs(e));
  return largest;
}

struct LargeCheck {
  const OpDef& op;
  DType dtype;
  const Sample& sample;
  InputSet which;
  Verdict& verdict;

  void compare(const Tensors& got, const Tensors& wanted, const std::vector<FarBound>& bounds, int power,
               const char* what) const {
    for (std::size_t o = 0; o < wanted.size() && o < got.size(); ++o) {
      if (!wanted[o].defined() || !flows(got[o])) continue;
      int compared = 0;
      const std::string text = far_difference(got[o], wanted[o], dtype, bounds[o], compared);
      verdict.checked += compared > 0 ? 1 : 0;
      if (!text.empty())
        verdict.fail(Case{op, sample, dtype, which, fmt::format("times 2^{}", power)}.text(
            fmt::format("{} {}: {}", what, o, text)));
    }
  }

  /// Gradients are sums of terms of the size of output times cotangent over input; where they cancel, what is left has
  /// the rounding of the terms, and on the way they may be 64 times as large. Subnormal ones may be 0.
  std::vector<FarBound> bounds_of_gradients(const Sample& large, const Tensors& out, const Tensors& cotangents) const {
    double terms = 0;
    for (std::size_t o = 0; o < out.size(); ++o)
      if (flows(out[o])) terms = std::max(terms, largest_of(out[o]) * largest_of(cotangents[o]));
    std::vector<FarBound> bounds;
    for (const Tensor& x : large.in) {
      if (!flows(x)) continue;
      const double size = largest_of(x);
      bounds.push_back({far_bound(dtype).relative, normal_of(dtype), size > 0 ? terms / size : 0.0, 1.0 / 64});
    }
    return bounds;
  }

  void at(int power) const {
    const Sample wide = converted(sample, DType::f64), large = times_power(sample, which, power);
    if (!not_far(op, dtype, power).empty() || !all_finite(large.in[which.front()])) return;
    const auto loops = [&](const Sample& s) { return reference_outputs(op, s); };
    const Tensors out = tried([&](const Sample& s) { return outputs(op, s); }, large);
    compare(out, continued_to(loops, wide, which, power), std::vector<FarBound>(out.size(), far_bound(dtype)), power,
            "output");
    const bool whole = std::all_of(out.begin(), out.end(), [](const Tensor& y) { return !flows(y) || all_finite(y); });
    // Where both factors of attention's scores grow, a gradient is what rounding leaves of equal numbers, times a
    // factor.
    if (out.empty() || !whole || op.name == "attention_qkv" || !differentiable(op, sample)) return;
    const Tensors cotangents = drawn_cotangents(op, sample);
    const auto along = [&](const Sample& s) { return gradients_along(op, s, cotangents); };
    compare(along(large), continued_to(along, wide, which, power), bounds_of_gradients(large, out, cotangents), power,
            "gradient");
  }
};

} // namespace

Verdict large_law(const OpDef& op) {
  Verdict verdict;
  for (const DType dtype : {DType::f64, DType::f32})
    each_sample(op, dtype, verdict, [&](const Sample& drawn) {
      const Sample sample = packed_copy(drawn);
      for (const std::size_t i : floating_inputs(sample))
        for (const int power : far_powers(dtype)) LargeCheck{op, dtype, sample, {i}, verdict}.at(power);
    });
  return verdict;
}

} // namespace eg::laws
