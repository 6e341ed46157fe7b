#include "core/ops/row_tools.h"
#include "core/reduction.h"
#include "support/law_tools.h"

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

/// Nothing is summed along any axis.
bool no_sums(const OpDef& op) {
  if (op.symmetries == pointwise_symmetries) return true;
  const Sample sample = op.samples(DType::f64).front();
  const Attrs attrs = completed(op, sample);
  const OpArgs args{op, sample.in, attrs};
  return op.work(args, op.infer(args)).flops == 0;
}

bool is_exact(const OpDef& op, const Symmetry& symmetry) { return no_sums(op) || symmetry.name.starts_with("kept"); }

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

Verdict exact_law(const OpDef& op) {
  const ReductionScope exact(Reduction::exact);
  Verdict verdict;
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
