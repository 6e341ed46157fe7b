#include "core/ops/list.h"
#include "support/extremes.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace eg::laws {
namespace {

double normal_of(DType dtype) {
  return dtype == DType::f32 ? static_cast<double>(std::numeric_limits<float>::min())
                             : std::numeric_limits<double>::min();
}

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
        verdict.fail(far_failure(where(op, sample, dtype), which, fmt::format("times 2^{}", power),
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
    if (out.empty() || !whole || &op == &attention_qkv_op || !differentiable(op, sample)) return;
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
