#pragma once
// Measures one row of the catalogue and keeps both sides of all that it compares.

#include "permute/catalogue/catalogue.h"
#include "permute/catalogue/claim.h"

#include <string>
#include <vector>

namespace eg::permute {

/// What verify() gives, and the numbers that it comes from.
struct Explanation {
  VerifyResult result;
  std::string statement, tex;
  /// Both sides of the statement and of the control, each with its error. In f32 comparisons with the expected side
  /// computed in f64 follow. Empty where the row was skipped or could not be run; then result.detail says why.
  std::vector<Comparison> holds, control;
};

/// Runs one row as verify() does. Throws Interrupted.
Explanation explain(const Identity& identity, const VerifyOptions& options);

/// Sizes that keep a row's matrices small enough to read: one sample of 3 tokens with 4 features, 2 heads, 4 hidden
/// features, one block, 3 training steps; more where the row needs more.
VerifyOptions small_sizes(const Identity& identity);

/// The elements row by row, wherever they are and whatever their type.
std::vector<double> elements_of(const Tensor& x);
/// What a comparison divides its largest difference by.
double scale_of(const Comparison& comparison);

/// The form of to_json(results). Each result also has "statement", "formula" and "comparisons", a list of {"what",
/// "shape", "left", "right", "difference", "scale", "error", "same_bits"}, and its "control" has such a list too.
/// Matrices are nested lists; "scale" is what the difference is divided by; "same_bits" says that both sides must have
/// the same bits.
std::string to_json(const std::vector<Explanation>& explanations);

} // namespace eg::permute
