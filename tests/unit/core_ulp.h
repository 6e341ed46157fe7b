#pragma once
// Accuracy of the rows, measured: errors of pointwise rows in units of the last place, of the others in units of their
// bound; what they do with NaN, infinities, very large, subnormal and equal numbers. For core_ulp_test.cpp.

#include "core/op.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace eg::test {

/// How a row's error is counted.
enum class Unit : std::uint8_t {
  ulp,      ///< units in the last place of the exact value
  ulp_of_g, ///< of the larger of the exact value and the cotangent (or the factor) it is multiplied with
  terms,    ///< u K sum of |terms|, entry by entry, K terms; u = 2^-24 for f32, 2^-53 for f64
  largest,  ///< u max |y| over the output
  none      ///< nothing is rounded: the bits of the plain loops
};
std::string_view name_of(Unit unit);

/// Largest errors seen of one row, and the largest allowed.
struct Accuracy {
  Unit unit = Unit::largest;
  double f32 = 0, f64 = 0;
  double exact_f32 = 0, exact_f64 = 0; ///< the same in exact mode
  double f32_bound = 0, f64_bound = 0;
  double exact_slack = 0; ///< what exact mode may add to the bounds
  std::string worst;      ///< where the largest error above its bound was seen
};

/// A row of one element to one element, over all exponents and densely around 0. Empty for other rows.
std::optional<Accuracy> pointwise_accuracy(const OpDef& op);
/// Any row, on its samples and on these scaled by powers of two.
Accuracy sample_accuracy(const OpDef& op);

/// What a row does with extremes, in words; `broken`: rules that it breaks.
struct Extremes {
  std::string nan;         ///< all of one input NaN
  std::string plus, minus; ///< all of the first input +Inf, -Inf
  std::string large;       ///< the first input times 2^40 .. 2^120 (f64: 2^300 .. 2^1000)
  std::string subnormal;   ///< every input subnormal
  std::string constant;    ///< all elements of the first input equal
  std::string masked;      ///< nothing is let through by the mask
  std::vector<std::string> broken;
};
Extremes extremes_of(const OpDef& op);

// --- for the three files of this ---

/// Exact value, and the error of y in units of the last place of max(|exact|, floor).
template <class T> double ulp_error(T y, long double exact, long double floor);

/// True for rows that only move elements.
bool moves_only(const OpDef& op);
/// Samples with floating inputs, and outputs, that have elements.
std::vector<Sample> measurable_samples(const OpDef& op, DType dtype);
/// The plain loops on f64 copies.
std::vector<Tensor> plain_loops(const OpDef& op, const Sample& sample);
/// Floating inputs times `factor`, rounded to their type; integers as they are.
Sample scaled(const Sample& sample, double factor);

} // namespace eg::test
