#include "core/ops.h"
#include "core/ops/row_tools.h"
#include "core/reduction.h"
#include "support/law_tools.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace eg::laws {
namespace {

/// Extent of the symmetry's first leg that is there; -1 when there is none.
std::int64_t extent(const Symmetry& symmetry, const Tensors& in, const Tensors& out) {
  for (const Leg& leg : symmetry.legs) {
    const Tensors& list = leg.side == Leg::Side::in ? in : out;
    const auto at = static_cast<std::size_t>(leg.index);
    if (at < list.size() && list[at].defined()) return list[at].size(leg.axis);
  }
  return -1;
}

/// Every declared symmetry on every sample. A sample where the axis has fewer than two elements says nothing, so each
/// name must be exercised by some other sample.
void check(const OpDef& op, DType dtype, const SymmetryCheckOptions& options, Verdict& verdict) {
  std::map<std::string, int> exercised;
  each_sample(op, dtype, verdict, [&](const Sample& sample) {
    const Tensors out = outputs(op, sample);
    if (options.backward && !differentiable(op, sample)) return;
    for (const Symmetry& symmetry : op.symmetries(sample)) {
      int& count = exercised[symmetry.name];
      const std::int64_t n = extent(symmetry, sample.in, out);
      if (n >= 0 && n < 2) continue;
      const CheckResult result = symmetry_check(function_of(op, sample.attrs), sample.in, symmetry, options);
      ++count;
      ++verdict.checked;
      if (dtype == DType::f64) verdict.see(result.error);
      if (!result.pass)
        verdict.fail(
            fmt::format("{}: {} (tolerance {:.0e})", where(op, sample, dtype), result.detail, options.tolerance));
    }
  });
  for (const auto& [name, count] : exercised)
    if (count == 0)
      verdict.fail(fmt::format("{}: no {} sample exercises the symmetry '{}'", op.name, name_of(dtype), name));
}

Verdict both_types(const OpDef& op, bool backward) {
  Verdict verdict;
  if (op.symmetries == nullptr || (backward && !has_gradient(op))) return verdict;
  SymmetryCheckOptions options;
  options.backward = backward;
  check(op, DType::f64, options, verdict);
  options.tolerance = 5e-6;
  check(op, DType::f32, options, verdict);
  return verdict;
}

} // namespace

Verdict symmetry_law(const OpDef& op) { return both_types(op, false); }

Verdict backward_symmetry_law(const OpDef& op) { return both_types(op, true); }

namespace {

/// Other numbers at every index but the first of the symmetry's legs.
Tensors changed_behind_first(const Tensors& in, const Symmetry& symmetry) {
  Tensors changed = in;
  for (const Leg& leg : symmetry.legs) {
    const auto i = static_cast<std::size_t>(leg.index);
    if (leg.side == Leg::Side::out || i >= in.size() || !in[i].defined() || !is_floating(in[i].dtype())) continue;
    const std::int64_t n = in[i].size(leg.axis);
    const Tensor rest = in[i].slice(leg.axis, 1, n);
    changed[i] =
        concat({in[i].slice(leg.axis, 0, 1), rest * 1.37 + 0.11}, leg.axis < 0 ? leg.axis + in[i].rank() : leg.axis);
  }
  return changed;
}

bool differs_at_first(const Tensors& a, const Tensors& b, const Symmetry& symmetry) {
  for (const Leg& leg : symmetry.legs) {
    const auto o = static_cast<std::size_t>(leg.index);
    if (leg.side == Leg::Side::in || o >= a.size() || !is_floating(a[o].dtype())) continue;
    const Tensor one = a[o].slice(leg.axis, 0, 1), other = b[o].slice(leg.axis, 0, 1);
    if (one.numel() > 0 && !(relative_error(one, other) <= 1e-12)) return true;
  }
  return false;
}

bool goes_through(const Symmetry& symmetry) {
  const auto on = [&](Leg::Side side) {
    return std::any_of(symmetry.legs.begin(), symmetry.legs.end(), [&](const Leg& leg) { return leg.side == side; });
  };
  return symmetry.values.empty() && on(Leg::Side::in) && on(Leg::Side::out);
}

} // namespace

Verdict mixing_law(const OpDef& op) {
  Verdict verdict;
  if (op.symmetries == nullptr) return verdict;
  std::map<std::string, std::pair<bool, bool>> seen; // by name: declared, found
  each_sample(op, DType::f64, verdict, [&](const Sample& sample) {
    const Tensors out = outputs(op, sample);
    for (const Symmetry& symmetry : op.symmetries(sample)) {
      if (!goes_through(symmetry) || extent(symmetry, sample.in, out) < 2) continue;
      Sample changed = sample;
      changed.in = changed_behind_first(sample.in, symmetry);
      const bool mixes = differs_at_first(out, outputs(op, changed), symmetry);
      ++verdict.checked;
      if (mixes && !symmetry.mixes)
        verdict.fail(fmt::format("{}: '{}' mixes its indices", where(op, sample), symmetry.name));
      auto& [declared, found] = seen[symmetry.name];
      declared = declared || symmetry.mixes;
      found = found || mixes;
    }
  });
  for (const auto& [name, both] : seen)
    if (both.first && !both.second) verdict.fail(fmt::format("{}: no sample mixes the indices of '{}'", op.name, name));
  return verdict;
}

namespace {

/// Nothing is summed along any axis.
bool no_sums(const OpDef& op) {
  if (op.symmetries == pointwise_symmetries) return true;
  const Sample sample = op.samples(DType::f64).front();
  const Attrs attrs = completed(op, sample);
  const OpArgs args{op, sample.in, attrs};
  return op.work(args, op.infer(args)).flops == 0;
}

bool is_exact(const OpDef& op, const Symmetry& symmetry) { return no_sums(op) || symmetry.bit_exact; }

} // namespace

bool has_exact_axes(const OpDef& op) {
  if (op.symmetries == nullptr) return false;
  for (const Sample& sample : op.samples(DType::f64))
    for (const Symmetry& symmetry : op.symmetries(sample))
      if (is_exact(op, symmetry)) return true;
  return false;
}

Verdict placement_law(const OpDef& op) {
  Verdict verdict;
  if (!has_exact_axes(op)) return verdict;
  SymmetryCheckOptions options;
  options.backward = false;
  options.tolerance = 0.0;
  for (const DType dtype : {DType::f64, DType::f32})
    each_sample(op, dtype, verdict, [&](const Sample& sample) {
      const Tensors out = outputs(op, sample);
      for (const Symmetry& symmetry : op.symmetries(sample)) {
        if (!is_exact(op, symmetry) || extent(symmetry, sample.in, out) < 2) continue;
        const CheckResult result = symmetry_check(function_of(op, sample.attrs), sample.in, symmetry, options);
        ++verdict.checked;
        if (!result.pass) verdict.fail(fmt::format("{}: {} (must be exact)", where(op, sample, dtype), result.detail));
      }
    });
  return verdict;
}

namespace {

/// Every sample of a row that exact mode refuses is refused, in the row's words.
void check_refused(const OpDef& op, Verdict& verdict) {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const Sample& sample : op.samples(dtype)) {
      ++verdict.checked;
      try {
        outputs(op, sample);
        verdict.fail(fmt::format("{}: exact mode took it", where(op, sample, dtype)));
      } catch (const ValueError& e) {
        if (std::string(e.what()).find(op.no_exact) == std::string::npos)
          verdict.fail(
              fmt::format("{}: the refusal does not say '{}': {}", where(op, sample, dtype), op.no_exact, e.what()));
      }
    }
}

} // namespace

Verdict exact_law(const OpDef& op) {
  const ReductionScope exact(Reduction::exact);
  Verdict verdict;
  if (!op.no_exact.empty()) {
    check_refused(op, verdict);
    return verdict;
  }
  if (op.exact != nullptr) {
    verdict = reference_law(op);
    const Verdict threads = threads_law(op);
    verdict.failures.insert(verdict.failures.end(), threads.failures.begin(), threads.failures.end());
  }
  if (op.symmetries == nullptr) return verdict;
  for (const bool backward : {false, true})
    for (const DType dtype : {DType::f64, DType::f32}) {
      if (backward && !has_gradient(op)) continue;
      SymmetryCheckOptions options;
      options.backward = backward;
      options.bits = true;
      check(op, dtype, options, verdict);
    }
  return verdict;
}

} // namespace eg::laws
