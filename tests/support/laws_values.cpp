#include "autograd/tape.h"
#include "core/ops.h"
#include "core/simd/simd.h"
#include "support/law_tools.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg::laws {
namespace {

/// Multiply-adds of WebAssembly round twice (Highway's target EMU128): seen is 2.4e-6 instead of 2e-6 at most.
double tolerance_of(DType dtype) {
  static const double f32 = simd::target().starts_with("EMU128") ? 3e-6 : 2e-6;
  return dtype == DType::f64 ? 2e-13 : f32;
}

/// max |a - b| relative to max |b|; where b is zero everywhere, to `floor`. Integers must be equal.
double distance(const Tensor& a, const Tensor& b, double floor = 0.0) {
  const Tensor x = a.to(DType::f64);
  const Tensor y = b.to(DType::f64);
  if (!is_floating(a.dtype())) return same_bits(x.contiguous(), y.contiguous()) ? 0.0 : INFINITY;
  const double error = relative_error(x, y);
  if (std::isfinite(error) || floor == 0.0) return error;
  return relative_error(add(x, Tensor::full(x.shape(), floor, DType::f64)),
                        add(y, Tensor::full(y.shape(), floor, DType::f64)));
}

void compare_with_reference(const OpDef& op, const Sample& sample, DType dtype, Verdict& verdict) {
  const Tensors got = outputs(op, sample);
  const Tensors wanted = reference_outputs(op, sample);
  ++verdict.checked;
  if (got.size() != wanted.size()) {
    verdict.fail(
        fmt::format("{}: {} outputs, the reference has {}", where(op, sample, dtype), got.size(), wanted.size()));
    return;
  }
  for (std::size_t o = 0; o < got.size(); ++o) {
    if (got[o].shape() != wanted[o].shape()) {
      verdict.fail(fmt::format("{}: {} is {}, the reference gives {}", where(op, sample, dtype), output_name(op, o),
                               got[o].shape().str(), wanted[o].shape().str()));
      continue;
    }
    const double error = distance(got[o], wanted[o], 1.0);
    if (dtype == DType::f64) verdict.see(error);
    if (!(error <= tolerance_of(dtype)))
      verdict.fail(fmt::format("{}: {} differs from the plain loops by {:.2e} (tolerance {:.0e})",
                               where(op, sample, dtype), output_name(op, o), error, tolerance_of(dtype)));
  }
}

} // namespace

Verdict reference_law(const OpDef& op) {
  Verdict verdict;
  for (const DType dtype : {DType::f64, DType::f32}) {
    int enlargeable = 1; // one large sample a type: several chunks, odd tails
    each_sample(op, dtype, verdict, [&](const Sample& sample) {
      compare_with_reference(op, sample, dtype, verdict);
      if (enlargeable == 0) return;
      const Sample large = enlarged(op, sample, 70000);
      if (large.in.empty()) return;
      --enlargeable;
      compare_with_reference(op, large, dtype, verdict);
    });
  }
  return verdict;
}

namespace {

/// Forward and backward of one call.
struct Results {
  Tensors out;
  Tensors gradients;
};
Results results(const OpDef& op, const Sample& sample, const Tensors& cotangents) {
  Results r{outputs(op, sample), {}};
  if (differentiable(op, sample)) r.gradients = gradients(op, sample, cotangents);
  return r;
}

/// Where two lists differ: in their bits or, where the layout may change rounding, by more than that.
std::string layout_difference(const OpDef& op, const Tensors& a, const Tensors& b) {
  const std::string difference = difference_in_bits(a, b);
  if (difference.empty() || !op.rounding.by_layout || a.size() != b.size()) return difference;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].defined() != b[i].defined()) return difference;
    if (!a[i].defined()) continue;
    if (a[i].shape() != b[i].shape() || a[i].dtype() != b[i].dtype()) return difference;
    if (!(relative_error(a[i], b[i]) <= tolerance_of(b[i].dtype()))) return difference;
  }
  return {};
}

struct LayoutCheck {
  const OpDef& op;
  const Sample& sample;
  DType dtype;
  Verdict& verdict;

  /// `other` is the sample in another layout.
  void against(const Results& packed, const Tensors& cotangents, const Sample& other, const std::string& what) const {
    const Results strided = results(op, other, cotangents);
    ++verdict.checked;
    std::string difference = layout_difference(op, strided.out, packed.out);
    if (!difference.empty())
      verdict.fail(
          fmt::format("{}: {}: not the bits of packed inputs: {}", where(op, sample, dtype), what, difference));
    difference = layout_difference(op, strided.gradients, packed.gradients);
    if (!difference.empty())
      verdict.fail(fmt::format("{}: {}: gradients are not those of packed inputs: {}", where(op, sample, dtype), what,
                               difference));
  }

  void each_input(const Sample& base, const Results& packed, const Tensors& cotangents) const {
    for (std::size_t i = 0; i < base.in.size(); ++i) {
      if (!base.in[i].defined()) continue;
      for (const auto& [name, tensor] : layouts_of(base.in[i])) {
        Sample other = base;
        other.in[i] = tensor;
        against(packed, cotangents, other, fmt::format("input {} {}", i, name));
      }
    }
  }

  void each_cotangent(const Sample& base, const Results& packed, const Tensors& cotangents) const {
    for (std::size_t o = 0; o < cotangents.size(); ++o) {
      if (!cotangents[o].defined() || packed.gradients.empty()) continue;
      for (const auto& [name, tensor] : layouts_of(cotangents[o])) {
        Tensors other = cotangents;
        other[o] = tensor;
        against(packed, other, base, fmt::format("cotangent {} {}", o, name));
      }
    }
  }

  /// Inputs that are constant along an axis, once packed and once with stride 0.
  void each_repeated_axis(const Sample& base) const {
    for (std::size_t i = 0; i < base.in.size(); ++i) {
      if (!base.in[i].defined()) continue;
      for (int axis = 0; axis < base.in[i].rank(); ++axis) {
        if (base.in[i].size(axis) < 2) continue;
        Sample repeated = base;
        repeated.in[i] = base.in[i].slice(axis, 0, 1).clone().expand(base.in[i].shape());
        const Sample plain = packed_copy(repeated);
        Tensors cotangents;
        Results right;
        try {
          cotangents = cotangents_for(outputs(op, plain));
          right = results(op, plain, cotangents);
        } catch (const Error&) {
          continue; // a permutation that repeats is none; a matrix with equal rows has no inverse, or no gradient
        }
        against(right, cotangents, repeated, fmt::format("input {} repeated along axis {}", i, axis));
      }
    }
  }
};

} // namespace

Verdict layout_law(const OpDef& op) {
  Verdict verdict;
  for (const DType dtype : {DType::f64, DType::f32})
    each_sample(op, dtype, verdict, [&](const Sample& sample) {
      const Sample base = packed_copy(sample);
      const Tensors cotangents = cotangents_for(outputs(op, base));
      const Results packed = results(op, base, cotangents);
      const LayoutCheck check{op, sample, dtype, verdict};
      check.against(packed, cotangents, sample, "as the sample lies");
      check.each_input(base, packed, cotangents);
      check.each_cotangent(base, packed, cotangents);
      check.each_repeated_axis(base);
    });
  return verdict;
}

namespace {

/// The first `count` elements along the symmetry's axes.
Sample cut(const Sample& sample, const Symmetry& symmetry, std::int64_t count) {
  Sample small = packed_copy(sample);
  for (const Leg& leg : symmetry.legs) {
    const auto at = static_cast<std::size_t>(leg.index);
    if (leg.side != Leg::Side::in || at >= small.in.size() || !small.in[at].defined()) continue;
    Tensor& x = small.in[at];
    x = x.slice(leg.axis, 0, std::min(count, x.size(leg.axis))).clone();
  }
  return small;
}

/// False: the call is refused, with an error of the library.
bool check_small(const OpDef& op, const Sample& small, DType dtype, Verdict& verdict) {
  try {
    outputs(op, small);
  } catch (const Error&) {
    ++verdict.checked;
    return false;
  }
  compare_with_reference(op, small, dtype, verdict);
  if (!differentiable(op, small)) return true;
  for (std::size_t i = 0; const Tensor& g : gradients(op, small, cotangents_for(outputs(op, small)))) {
    if (g.defined() && g.shape() != small.in[i].shape())
      verdict.fail(fmt::format("{}: the gradient is {}", where(op, small, dtype), g.shape().str()));
    ++i;
  }
  return true;
}

/// Whether the row says that so few indices along the symmetry's axes may be refused; which of its words say so is
/// noted in `used`.
bool may_refuse(const OpDef& op, const Symmetry& symmetry, std::int64_t count, std::vector<bool>& used) {
  bool may = false;
  for (std::size_t i = 0; i < op.least_extents.size(); ++i)
    if (symmetry.name.starts_with(op.least_extents[i].symmetry) && count < op.least_extents[i].least)
      may = used[i] = true;
  return may;
}

} // namespace

Verdict small_extent_law(const OpDef& op) {
  Verdict verdict;
  std::vector<bool> used(op.least_extents.size(), false);
  for (const DType dtype : {DType::f64, DType::f32})
    each_sample(op, dtype, verdict, [&](const Sample& sample) {
      if (op.symmetries == nullptr) return;
      for (const Symmetry& symmetry : op.symmetries(sample)) {
        if (!symmetry.values.empty()) continue; // the labels would point outside
        for (const std::int64_t count : {1, 0}) {
          Sample small = cut(sample, symmetry, count);
          const std::string note = fmt::format("'{}' cut to {}, {}", symmetry.name, count, sample.note);
          small.note = note.c_str();
          if (!check_small(op, small, dtype, verdict) && !may_refuse(op, symmetry, count, used))
            verdict.fail(fmt::format("{}: refused, and the row does not say so", where(op, small, dtype)));
        }
      }
    });
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i])
      verdict.fail(fmt::format("{}: no call is refused for fewer than {} of '{}'", op.name, op.least_extents[i].least,
                               op.least_extents[i].symmetry));
  return verdict;
}

Verdict dtype_law(const OpDef& op) {
  constexpr double tolerance = 5e-6;
  Verdict verdict;
  each_sample(op, DType::f32, verdict, [&](const Sample& sample) {
    const Sample wide = converted(sample, DType::f64);
    const Tensors narrow_out = outputs(op, sample);
    const Tensors wide_out = outputs(op, wide);
    for (std::size_t o = 0; o < narrow_out.size(); ++o) {
      ++verdict.checked;
      const double error = distance(narrow_out[o], wide_out[o], 1.0);
      verdict.see(error);
      if (!(error <= tolerance))
        verdict.fail(fmt::format("{}: {}: f32 and f64 differ by {:.2e}", where(op, sample, DType::f32),
                                 output_name(op, o), error));
    }
    if (!differentiable(op, sample) || !differentiable(op, wide)) return;
    const Tensors cotangents = cotangents_for(narrow_out);
    Tensors wide_cotangents = cotangents;
    for (std::size_t o = 0; o < wide_cotangents.size(); ++o)
      if (flows(wide_cotangents[o])) wide_cotangents[o] = wide_cotangents[o].to(wide_out[o].dtype());
    const Tensors g = gradients(op, sample, cotangents);
    const Tensors h = gradients(op, wide, wide_cotangents);
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (!g[i].defined()) continue;
      ++verdict.checked;
      if (g[i].dtype() != DType::f32)
        verdict.fail(fmt::format("{}: gradient {} is {}", where(op, sample, DType::f32), i, name_of(g[i].dtype())));
      const double error = distance(g[i], h[i], 1.0);
      verdict.see(error);
      if (!(error <= tolerance))
        verdict.fail(
            fmt::format("{}: gradient {}: f32 and f64 differ by {:.2e}", where(op, sample, DType::f32), i, error));
    }
  });
  return verdict;
}

} // namespace eg::laws
