#include "core/ops.h"
#include "support/extremes.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace eg::laws {
namespace {

/// Half a unit in the last place of 1.
double unit_of(DType dtype) { return dtype == DType::f32 ? 0x1p-24 : 0x1p-53; }
/// Largest difference of elements, relative to the largest of `b`; infinite where one is NaN.
double difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = numbers(a), y = numbers(b);
  double most = 0, largest = 0;
  for (const double e : y) largest = std::max(largest, std::abs(e));
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i] - y[i])) return std::numeric_limits<double>::infinity();
    most = std::max(most, std::abs(x[i] - y[i]));
  }
  return largest > 0 ? most / largest : most;
}

/// What rounding alone may change when `offset` is added. Backward rows subtract rounded means as well.
double offset_bound(const OpDef& op, DType dtype, double offset) {
  const double strict = dtype == DType::f32 ? 5e-6 : 5e-13;
  const Rounding::Mean mean = op.rounding.mean;
  const bool rounds_mean =
      is_backward(op) || mean == Rounding::Mean::in_type || (dtype == DType::f64 && mean == Rounding::Mean::in_f64);
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
          verdict.fail(far_failure(where(op, sample, dtype), which, fmt::format("plus {:g}", c),
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
      if (floats.size() >= 2 && !is_backward(op)) check.run(sample, {floats[0], floats[1]});
    });
  return verdict;
}

} // namespace eg::laws
