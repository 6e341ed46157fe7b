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
  if (op.symmetries == nullptr || (backward && op.vjp == nullptr)) return verdict;
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

} // namespace eg::laws
